"""Round robin: what is usual, and the baseline of the evaluation (thesis §4.5.4)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mangrove.planning.bounds import best_bound
from mangrove.planning.judgement.feasibility import placements
from mangrove.planning.judgement.result import Result, concluded
from mangrove.planning.problem.arrays import IntArray
from mangrove.planning.problem.problem import Problem
from mangrove.planning.solvers.stop import Stop


@dataclass(frozen=True, slots=True)
class RoundRobinParams:
    """`cyclic` deals items out in turn, whatever they weigh; `order` is the order of the items."""

    cyclic: bool = False
    order: tuple[int, ...] | None = None
    with_bound: bool = True


def solve(problem: Problem, stop: Stop, seed: int, params: RoundRobinParams) -> Result:
    """One pass over the items; nothing is random and nothing is long, so `stop` is not asked."""
    order = np.arange(problem.item_count) if params.order is None else np.array(params.order, dtype=np.int64)
    assignment = cyclic(problem, order) if params.cyclic else by_reserve(problem, order)
    return concluded(
        problem,
        assignment,
        solver="round-robin",
        seed=seed,
        steps=problem.item_count,
        score_bound=best_bound.score_bound(problem) if params.with_bound else np.inf,
    )


def by_reserve(problem: Problem, order: IntArray) -> IntArray:
    """Each item in turn goes to the open broker with the largest reserve ratio `(C − V)/C`.

    The ratio is the one before the item is placed; the first broker wins a tie. Pinned items come first,
    because their load is there whatever the order.
    """
    open_ = placements(problem).open
    busy = np.zeros(problem.broker_count)
    room = problem.constraints.max_items.copy()
    assignment = np.full(problem.item_count, -1, dtype=np.int64)
    single = open_.sum(axis=1) == 1
    for item in [*np.flatnonzero(single), *(i for i in order if not single[i])]:
        choices = np.flatnonzero(open_[item])
        if (room[choices] > 0).any():
            choices = choices[room[choices] > 0]
        broker = choices[np.argmax(1.0 - busy[choices])]
        assignment[item] = broker
        busy[broker] += _share(problem, int(broker), int(item))
        room[broker] -= 1
    return assignment


def cyclic(problem: Problem, order: IntArray) -> IntArray:
    """Items dealt to brokers in turn; an item that may not go there takes the next open one."""
    open_ = placements(problem).open
    brokers = problem.broker_count
    assignment = np.full(problem.item_count, -1, dtype=np.int64)
    for turn, item in enumerate(order):
        candidates = (turn + np.arange(brokers)) % brokers
        assignment[item] = candidates[np.argmax(open_[item, candidates])]
    return assignment


def _share(problem: Problem, broker: int, item: int) -> float:
    """Part of the broker's capacity that the item's mean rate takes."""
    rate = float(problem.mean_rate_msg_s[item])
    if problem.capacity_msg_s is not None:
        return rate / float(problem.capacity_msg_s[broker])
    assert problem.service_time_s is not None
    return rate * float(problem.service_time_s[broker, item])
