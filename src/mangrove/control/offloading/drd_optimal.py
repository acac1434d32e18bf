"""The least sum of 1/deadline over the subscribers that move: what ePEER's §4.5 reports, as the objective
itself.

A move delays every subscriber by about the same time, so its relative delays sum up to that time times
`members / deadline`. Choosing whole bundles that cover the need at the least such price is a covering
knapsack with fit at the acceptors.

It is solved by branch and bound: bundles in the order of price for each unit of relief on the worst metric,
the fractional cover of what is left as the bound, and at each cover that is cheaper than the best so far an
exact search for a way to pack it into the acceptors. The result is exact, for any number of metrics and
acceptors, when that ends within `NODES` steps (`Search.proven`); beyond, it is the best cover found. Either
way it is never worse than `drd`, whose choice is where the search starts: if `drd` meets the need the price
is at most `drd`'s, and where no cover of whole bundles is found the choice is `drd`'s.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence

import msgspec

from mangrove.control.offloading.drd import drd
from mangrove.control.offloading.plan import Plan, deadline_text, relief_text
from mangrove.control.offloading.priorities import prioritised, worst_metric
from mangrove.control.offloading.problem import Bundle, Choice, Problem, cost_at
from mangrove.model.agents.load import Amounts

NODES = 20_000
"""Steps after which the search ends with what it has; some tens of milliseconds."""

PACKING_NODES = 500
"""Steps for one cover to find its way into the acceptors."""

_SLACK = 1e-9


class Search(msgspec.Struct, frozen=True):
    """A choice, and whether no cheaper one exists."""

    choice: Choice
    proven: bool


def price(bundle: Bundle) -> float:
    """What moving all its subscribers costs: the sum of 1/deadline; nothing without a deadline."""
    return len(bundle.members) / max(bundle.deadline_s, 1e-9)


def price_of(problem: Problem, choice: Choice) -> float:
    """The objective: the sum of 1/deadline over all subscribers that a choice moves."""
    deadlines = {bundle.topic: bundle.deadline_s for bundle in problem.bundles}
    return sum(len(move.members) / max(deadlines[move.topic], 1e-9) for move in choice.moves)


def drd_optimal(problem: Problem) -> Choice:
    """The cheapest set of topics that covers the need, as far as the search goes."""
    return search(problem).choice


def search(problem: Problem, nodes: int = NODES) -> Search:
    """Search for the cheapest cover within so many steps."""
    start = drd(problem)
    plan = Plan(problem)
    if plan.met():
        return Search(start, True)
    best = math.inf if start.unmet else price_of(problem, start)
    covers = _Covers(problem, plan, best, nodes)
    covers.search()
    if covers.found is None:
        return Search(start, covers.proven)
    metrics = tuple(problem.need)
    for bundle, index in covers.found:
        why = (
            f"one of the {len(covers.found)} topics that cover the need for the least sum of 1/deadline"
            f" ({deadline_text(bundle.deadline_s)}, {len(bundle.members)} clients); relieves"
            f" {relief_text(bundle.load, metrics)}; {plan.acceptors[index].broker} has room for it"
        )
        plan.take(bundle, index, why)
    return Search(plan.choice(), covers.proven)


class _Covers:
    """Branch and bound over sets of bundles."""

    def __init__(self, problem: Problem, plan: Plan, best: float, nodes: int) -> None:
        worst = worst_metric(problem)
        self._plan = plan
        self._metrics = [worst, *(metric for metric in plan.need if metric is not worst)]
        self._need = tuple(plan.need[metric] * (1.0 - _SLACK) for metric in self._metrics)
        bundles = [bundle for bundle in prioritised(problem) if plan.place(bundle) is not None]
        prices = {bundle.topic: price(bundle) for bundle in bundles}

        def ratio(bundle: Bundle) -> float:
            relief = bundle.load.of(worst)
            return prices[bundle.topic] / relief if relief > 0 else math.inf

        bundles.sort(key=lambda bundle: (ratio(bundle), -bundle.load.of(worst), bundle.topic))
        self._bundles = bundles
        self._prices = [prices[bundle.topic] for bundle in bundles]
        self._ratios = [ratio(bundle) for bundle in bundles]
        self._gains = [tuple(bundle.load.of(metric) for metric in self._metrics) for bundle in bundles]
        self._gain_before = [0.0]
        self._price_before = [0.0]
        for gains, cost in zip(self._gains, self._prices, strict=True):
            self._gain_before.append(self._gain_before[-1] + gains[0])
            self._price_before.append(self._price_before[-1] + (cost if gains[0] > 0 else 0.0))
        self._left = [[0.0] * len(self._metrics)]
        for gains in reversed(self._gains):
            self._left.append([sum(pair) for pair in zip(self._left[-1], gains, strict=True)])
        self._left.reverse()
        self._best = best
        self._steps = nodes
        self.proven = True
        self.found: list[tuple[Bundle, int]] | None = None

    def search(self) -> None:
        """Depth first, always the cheapest relief next; on a stack, because a cover may be thousands deep."""
        chosen: list[int] = []
        needs: list[tuple[float, ...]] = [self._need]
        costs = [0.0]
        position = 0
        while True:
            if self._steps <= 0:
                self.proven = False
                return
            self._steps -= 1
            need, cost = needs[-1], costs[-1]
            if position < len(self._bundles) and self._promising(position, need, cost):
                after = tuple(one - gain for one, gain in zip(need, self._gains[position], strict=True))
                if cost + self._prices[position] < self._best * (1.0 - _SLACK) and self._useful(
                    need, position
                ):
                    chosen.append(position)
                    if max(after) <= 0.0:
                        self._complete(chosen, cost + self._prices[position])
                        chosen.pop()
                    else:
                        needs.append(after)
                        costs.append(cost + self._prices[position])
                position += 1
                continue
            if not chosen:
                return
            position = chosen.pop() + 1
            needs.pop()
            costs.pop()

    def _promising(self, position: int, need: tuple[float, ...], cost: float) -> bool:
        """Whether what is left from here on can cover the need, and for less than the best so far."""
        if any(left < one for left, one in zip(self._left[position], need, strict=True)):
            return False
        if need[0] <= 0:
            return cost < self._best * (1.0 - _SLACK)
        goal = self._gain_before[position] + need[0]
        end = min(bisect_left(self._gain_before, goal, position + 1), len(self._bundles))
        rest = goal - self._gain_before[end - 1]
        bound = self._price_before[end - 1] - self._price_before[position]
        if rest > 0 and math.isfinite(self._ratios[end - 1]):
            bound += rest * self._ratios[end - 1]
        return cost + bound < self._best * (1.0 - _SLACK)

    def _useful(self, need: tuple[float, ...], position: int) -> bool:
        return any(one > 0 and gain > 0 for one, gain in zip(need, self._gains[position], strict=True))

    def _complete(self, chosen: Sequence[int], cost: float) -> None:
        """A cover that is cheaper than the best: is there a way to pack it?"""
        kept = self._without_idle(chosen)
        packed, proven = self._pack([self._bundles[index] for index in kept])
        self.proven = self.proven and proven
        if packed is not None:
            self._best = min(cost, sum(self._prices[index] for index in kept))
            self.found = packed

    def _without_idle(self, chosen: Sequence[int]) -> list[int]:
        """The cover without bundles, the dearest first, that it covers the need without."""
        kept = list(chosen)
        spare = [sum(self._gains[index][k] for index in kept) - need for k, need in enumerate(self._need)]
        for index in sorted(chosen, key=lambda one: (-self._prices[one], one)):
            gains = self._gains[index]
            if all(left >= gain for left, gain in zip(spare, gains, strict=True)):
                kept.remove(index)
                spare = [left - gain for left, gain in zip(spare, gains, strict=True)]
        return kept

    def _pack(self, bundles: list[Bundle]) -> tuple[list[tuple[Bundle, int]] | None, bool]:
        """Targets for all of them, largest first, and whether None is proven."""
        acceptors = self._plan.acceptors
        order = sorted(bundles, key=lambda one: (-one.load.of(self._metrics[0]), one.topic))
        rooms: list[list[Amounts]] = [list(self._plan.rooms)]
        targets: list[int] = []
        index = 0
        steps = PACKING_NODES + len(order) * len(acceptors)
        while len(targets) < len(order):
            if steps <= 0:
                return None, False
            steps -= 1
            if index >= len(acceptors):
                if not targets:
                    return None, True
                index = targets.pop() + 1
                rooms.pop()
                continue
            bundle = order[len(targets)]
            cost = cost_at(acceptors[index], bundle)
            if cost.fits(rooms[-1][index]):
                after = list(rooms[-1])
                after[index] = after[index].minus(cost)
                rooms.append(after)
                targets.append(index)
                index = 0
            else:
                index += 1
        return list(zip(order, targets, strict=True)), True
