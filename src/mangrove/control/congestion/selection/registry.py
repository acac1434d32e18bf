"""The selections by name."""

from __future__ import annotations

from mangrove.control.congestion.problem import Select
from mangrove.control.congestion.selection.greedy import greedy
from mangrove.control.congestion.selection.knapsack import knapsack
from mangrove.errors import InputError

SELECTIONS: dict[str, Select] = {"greedy": greedy, "knapsack": knapsack}


def select_named(name: str) -> Select:
    """The selection of that name."""
    found = SELECTIONS.get(name)
    if found is None:
        raise InputError(f"there is no selection {name!r}", hint=f"one of {', '.join(SELECTIONS)}")
    return found
