"""The selections by name."""

from __future__ import annotations

from mangrove.control.congestion.problem import CongestionProblem, Select, Selection
from mangrove.control.congestion.selection.greedy import greedy
from mangrove.errors import InputError


def _knapsack(problem: CongestionProblem) -> Selection:
    """Loaded when it is first asked for: an agent that is greedy does without the libraries."""
    from mangrove.control.congestion.selection.knapsack import knapsack

    return knapsack(problem)


SELECTIONS: dict[str, Select] = {"greedy": greedy, "knapsack": _knapsack}


def select_named(name: str) -> Select:
    """The selection of that name."""
    found = SELECTIONS.get(name)
    if found is None:
        raise InputError(f"there is no selection {name!r}", hint=f"one of {', '.join(SELECTIONS)}")
    return found
