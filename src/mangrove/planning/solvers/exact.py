"""Branch and bound: a depth-first search that proves what it returns (thesis §4.5.3).

Items are decided one after the other, largest first. A branch is cut when its upper bound shows that it holds
nothing better than the best allocation known, or nothing that keeps the constraints. Of several equal brokers
that carry nothing yet only the first is tried: the branches of the others are its mirror images. When the
search ends by itself the answer is optimal; when it is stopped, the largest bound among the open branches
limits what could still have been found.

Bounds come from tables over all sets of items while those fit (`subsets`), else from the relaxation
(`relaxation`), which is weaker but has no limit of size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mangrove.planning.bounds import subsets
from mangrove.planning.bounds.relaxed_bound import RelaxedBound
from mangrove.planning.judgement.feasibility import placements
from mangrove.planning.judgement.result import Result, concluded
from mangrove.planning.judgement.scoring import Scorer
from mangrove.planning.problem.arrays import BoolArray, IntArray
from mangrove.planning.problem.problem import Problem
from mangrove.planning.solvers import search
from mangrove.planning.solvers.stop import Progress, Stop

_STEPS_PER_QUESTION = 1024


@dataclass(frozen=True, slots=True)
class ExactParams:
    """`max_nodes` ends the search after so many placements, whatever the clock says.

    `tabulate` allows tables over all sets of items where they fit; without them the relaxation bounds.
    """

    max_nodes: int | None = None
    first_rounds: int = 10
    tabulate: bool = True


class Bound(Protocol):
    """Upper bounds along a path of placements."""

    rounding: float
    """How far rounding may have moved a bound."""

    def children(self, depth: int) -> list[float]:
        """For each broker, a bound of all completions that place the item at `depth` there."""

    def push(self, depth: int, broker: int) -> None: ...

    def pop(self, depth: int, broker: int) -> None: ...


def solve(problem: Problem, stop: Stop, seed: int, params: ExactParams) -> Result:
    """The optimum, proven; or, when stopped, the best allocation known and what could still be better."""
    first = search.solve(problem, stop, seed, search.SearchParams(params.first_rounds, with_bound=False))
    found = placements(problem)
    if found.contradictions:
        return concluded(
            problem,
            first.assignment,
            solver="exact",
            seed=seed,
            steps=0,
            score_bound=-np.inf,
            infeasible=True,
        )
    tree = _Tree(problem, found.open, stop, params, np.array(first.assignment))
    steps = 0
    if not first.feasible and tree.tabulated:
        # First find the least violation there is: zero gives a start, more proves that there is no answer.
        closest = tree.run(minimise_violation=True)
        steps = closest.nodes
        if closest.open_bound == -np.inf and closest.score < 0:
            return concluded(
                problem,
                closest.assignment,
                solver="exact",
                seed=seed,
                steps=steps,
                score_bound=-np.inf,
                infeasible=True,
            )
        if not closest.finished and closest.score < 0:
            return concluded(
                problem, closest.assignment, solver="exact", seed=seed, steps=steps, score_bound=np.inf
            )
        tree.incumbent = closest.assignment
    outcome = tree.run(minimise_violation=False)
    return concluded(
        problem,
        outcome.assignment,
        solver="exact",
        seed=seed,
        steps=steps + outcome.nodes,
        score_bound=max(outcome.open_bound, outcome.score),
        optimal=outcome.finished and outcome.score > -np.inf,
        infeasible=outcome.finished and outcome.score == -np.inf,
    )


@dataclass(frozen=True, slots=True)
class _Outcome:
    assignment: IntArray
    score: float
    open_bound: float
    """Largest bound of a branch left open; −∞ when none is."""
    nodes: int

    @property
    def finished(self) -> bool:
        return self.open_bound == -np.inf


class _Tree:
    def __init__(
        self, problem: Problem, open_: BoolArray, stop: Stop, params: ExactParams, incumbent: IntArray
    ) -> None:
        self.problem = problem
        self.open = open_
        self.stop = stop
        self.params = params
        self.incumbent = incumbent
        self.scorer = Scorer(problem)
        self.classes = [int(c) for c in problem.broker_classes()]
        single = open_.sum(axis=1) == 1
        self.fixed: IntArray = np.where(single, open_.argmax(axis=1), -1).astype(np.int64)
        deviation = np.sqrt(np.clip(np.diag(problem.covariance), 0.0, None))
        size = problem.mean_rate_msg_s + 2.0 * deviation
        self.order: IntArray = np.array(
            sorted(np.flatnonzero(~single), key=lambda i: (-size[i], i)), dtype=np.int64
        )
        self.tabulated = params.tabulate and subsets.fits(len(self.order), max(self.classes) + 1)

    def run(self, *, minimise_violation: bool) -> _Outcome:
        bound = self._bound(minimise_violation)
        items = len(self.order)
        best = self.incumbent.copy()
        score = self._score(best, minimise_violation)
        placed: list[int] = []
        counts = [0] * self.problem.broker_count
        pending = [self._branches(bound, 0, counts)] if items else []
        nodes = 0
        stopped = False
        while pending:
            cut = score + max(1e-12 * abs(score), bound.rounding) if score > -np.inf else -np.inf
            branches = pending[-1]
            if not branches or branches[-1][0] <= cut:
                pending.pop()
                if placed:
                    broker = placed.pop()
                    counts[broker] -= 1
                    bound.pop(len(placed), broker)
                continue
            if nodes % _STEPS_PER_QUESTION == 0 and (stopped := self._should_stop(nodes, score, pending)):
                break
            broker = branches.pop()[1]
            bound.push(len(placed), broker)
            placed.append(broker)
            counts[broker] += 1
            nodes += 1
            if len(placed) < items:
                pending.append(self._branches(bound, len(placed), counts))
                continue
            leaf = self.fixed.copy()
            leaf[self.order] = placed
            leaf_score = self._score(leaf, minimise_violation)
            if leaf_score > score:
                best, score = leaf, leaf_score
            pending.append([])
        open_bound = max((b[-1][0] for b in pending if b), default=-np.inf) if stopped else -np.inf
        return _Outcome(best, score, open_bound, nodes)

    def _branches(self, bound: Bound, depth: int, counts: list[int]) -> list[tuple[float, int]]:
        """Brokers for the item at this depth, the most promising last."""
        item = self.order[depth]
        branches: list[tuple[float, int]] = []
        empty_classes: set[int] = set()
        for broker, value in enumerate(bound.children(depth)):
            if value == -np.inf or not self.open[item, broker]:
                continue
            if counts[broker] == 0:
                if self.classes[broker] in empty_classes:
                    continue
                empty_classes.add(self.classes[broker])
            branches.append((value, -broker))
        branches.sort()
        return [(value, -negative) for value, negative in branches]

    def _bound(self, minimise_violation: bool) -> Bound:
        if self.tabulated:
            return subsets.SubsetBound(
                self.scorer, self.open, self.order, self.fixed, minimise_violation=minimise_violation
            )
        return RelaxedBound(self.scorer, self.order, self.fixed)

    def _score(self, where: IntArray, minimise_violation: bool) -> float:
        """Summed afresh; −∞ for an allocation that breaks a constraint."""
        brokers = np.arange(self.problem.broker_count)
        on = (where[None, :] == brokers[:, None]).astype(np.float64)
        variance = np.einsum("bi,bi->b", on @ self.problem.covariance, on)
        sums = np.einsum("fbi,bi->fb", self.scorer.features, on)
        violation = float(self.scorer.violation(brokers, sums, variance).sum())
        if minimise_violation:
            return -violation
        return -np.inf if violation > 0 else float(self.scorer.score(brokers, sums, variance).sum())

    def _should_stop(self, nodes: int, score: float, pending: list[list[tuple[float, int]]]) -> bool:
        if self.params.max_nodes is not None and nodes >= self.params.max_nodes:
            return True
        bound = max((b[-1][0] for b in pending if b), default=-np.inf)
        return self.stop(Progress("exact", nodes, score, bound))
