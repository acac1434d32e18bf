"""Which placements are open, and why a problem has no answer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mangrove.planning.judgement.assessment import Assessment
from mangrove.planning.judgement.scoring import TOLERANCE
from mangrove.planning.problem.arrays import BoolArray
from mangrove.planning.problem.problem import Problem


@dataclass(frozen=True, slots=True)
class Placements:
    """`open[item, broker]`, with a row of its own for every item, and the contradictions met on the way.

    An item whose constraints leave no broker is opened to all of them: the solvers then still find the
    closest allocation, and the contradictions say why it is not an answer.
    """

    open: BoolArray
    contradictions: tuple[str, ...]


def placements(problem: Problem) -> Placements:
    """Open placements, and constraints that contradict each other whatever the allocation."""
    mask = problem.allowed()
    found: list[str] = []
    for item in np.flatnonzero(~mask.any(axis=1)):
        found.append(_no_broker(problem, int(item)))
        mask[item] = True
    return Placements(mask, tuple(found + _counting_contradictions(problem)))


def _no_broker(problem: Problem, item: int) -> str:
    name = problem.items[item]
    bounds = problem.constraints
    pinned = bounds.pinned.get(item)
    if pinned is not None and (item, pinned) in bounds.forbidden:
        broker = problem.brokers[pinned]
        return f"constraints.pinned.{name}: pinned to {broker}, which constraints.forbidden.{name} rules out"
    if pinned is not None:
        return (
            f"constraints.pinned.{name}: pinned to {problem.brokers[pinned]}, which cannot keep "
            f"constraints.max_delay_s {bounds.max_delay_s:.6g}"
        )
    return (
        f"constraints.forbidden.{name}: together with constraints.max_delay_s leaves no broker"
        if np.isfinite(bounds.max_delay_s)
        else f"constraints.forbidden.{name}: leaves no broker"
    )


def _counting_contradictions(problem: Problem) -> list[str]:
    bounds = problem.constraints
    found: list[str] = []
    room = float(np.minimum(bounds.max_items, problem.item_count).sum())
    if room < problem.item_count:
        found.append(
            f"constraints.max_items: the brokers together may hold {room:g} of {problem.item_count} items"
        )
    volume = float(problem.volume.sum())
    if volume > float(bounds.max_volume.sum()) * (1 + TOLERANCE):
        found.append(
            f"constraints.max_volume: the brokers together may hold {bounds.max_volume.sum():.6g} "
            f"of a volume of {volume:.6g}"
        )
    rates = problem.mean_rate_msg_s
    if rates.sum() > 0:
        # The grade of the whole is a mean of the brokers' grades, so one of them is at least as high.
        grade = float(problem.replication @ rates / rates.sum())
        if grade > bounds.max_replication * (1 + TOLERANCE):
            found.append(
                f"constraints.max_replication: the grade of all items together is {grade:.6g}, "
                f"above the bound {bounds.max_replication:.6g}"
            )
    counts = np.bincount(list(bounds.pinned.values()), minlength=problem.broker_count)
    return found + [
        f"constraints.pinned: {counts[broker]} items are pinned to {problem.brokers[broker]}, "
        f"constraints.max_items allows {bounds.max_items[broker]:g}"
        for broker in np.flatnonzero(counts > bounds.max_items)
    ]


def reason(problem: Problem, closest: Assessment, *, proven: bool) -> str:
    """Why there is no answer, in words that name the fields."""
    contradictions = placements(problem).contradictions
    if contradictions:
        return "; ".join(contradictions)
    broken = "; ".join(str(violation) for violation in closest.violations)
    found = "no allocation keeps all constraints"
    if not proven:
        found = "no allocation that keeps all constraints was found, nor proven impossible"
    return f"{found}; the closest breaks {broken}"
