"""Local search with restarts: the solver for problems that cannot be solved exactly.

From a greedy start, apply the best move while it gains, then the best exchange of each pair of brokers that
has changed since it was last looked at. At a local optimum, exchange some items at random between a few
brokers and descend again; keep the outcome unless it is worse. A violated constraint costs a weight that
grows until the constraints hold, so that the way through infeasible allocations stays open.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mangrove.planning.bounds import best_bound
from mangrove.planning.judgement.feasibility import placements
from mangrove.planning.judgement.result import Result, concluded
from mangrove.planning.judgement.scoring import Scorer
from mangrove.planning.problem.arrays import BoolArray, IntArray
from mangrove.planning.problem.problem import Problem
from mangrove.planning.solvers.allocation_state import AllocationState
from mangrove.planning.solvers.neighbourhood import Neighbourhood
from mangrove.planning.solvers.round_robin import by_reserve
from mangrove.planning.solvers.scenario_neighbourhood import ScenarioNeighbourhood
from mangrove.planning.solvers.stop import Progress, Stop

# A gain must exceed this share of the present value: smaller ones triple the time of problems with many
# almost equal items, and end no better.
MIN_GAIN = 1e-6
# Rounds are fewer by this where sets are judged by scenarios.
SCENARIO_STEP_COST = 60
WEIGHTS = (1.0, 1e2, 1e4, 1e8)
# No violation, and a probability of 1 (or no penalty) in double precision: nothing can be better.
BEST_KEY = (0.0, 0.0)


@dataclass(frozen=True, slots=True)
class SearchParams:
    """`rounds` of kick and descent (None: by the size of the problem); `start` replaces the greedy one."""

    rounds: int | None = None
    start: tuple[int, ...] | None = None
    with_bound: bool = True


def solve(problem: Problem, stop: Stop, seed: int, params: SearchParams) -> Result:
    """Best allocation found. The bound is the relaxation's; optimality is not proven.

    With scenarios the search goes on from the best allocation by the normal model, so that the answer is
    never worse in them; the relaxation knows the normal model alone, so there is no bound.
    """
    if problem.scenarios is not None:
        if params.start is None:
            normal = solve(replace(problem, scenarios=None), stop, seed, replace(params, with_bound=False))
            params = replace(params, start=normal.assignment)
        params = replace(params, with_bound=False)
    climb = _Climb(problem, stop, np.random.default_rng(seed), params)
    climb.run()
    bound = best_bound.score_bound(problem) if params.with_bound else np.inf
    return concluded(
        problem,
        climb.best,
        solver="search",
        seed=seed,
        steps=climb.steps,
        score_bound=bound,
        # The relaxation leaves no room at all: a proof that needs no search.
        infeasible=bound == -np.inf,
    )


def default_rounds(problem: Problem) -> int:
    """More for small problems, where a round is cheap; few for tiny ones, where they only repeat.

    A descent looks at pairs of brokers, so many brokers make a round dear.
    """
    count = max(problem.item_count, 1)
    rounds = 30_000 / count / max(problem.broker_count / 10, 1)
    if problem.scenarios is not None:
        # A step takes a pass over all scenarios.
        rounds /= SCENARIO_STEP_COST
    return int(min(max(rounds, 3), 20 * count))


class _Climb:
    def __init__(self, problem: Problem, stop: Stop, rng: np.random.Generator, params: SearchParams) -> None:
        self.problem = problem
        self.stop = stop
        self.rng = rng
        self.rounds = default_rounds(problem) if params.rounds is None else params.rounds
        self.scorer = Scorer(problem)
        self.open = placements(problem).open
        start = self._greedy() if params.start is None else np.array(params.start, dtype=np.int64)
        kind = Neighbourhood if problem.scenarios is None else ScenarioNeighbourhood
        self.state: AllocationState = kind(self.scorer, self.open, start, WEIGHTS[0])
        self.steps = 0
        self.stopped = False
        self.best: IntArray = self.state.where.copy()
        self.best_key = self._key()

    def run(self) -> None:
        self._descend_to_feasible()
        self._remember()
        if not self.state.movable.any() or self.problem.broker_count < 2:
            return
        anchor, anchor_key = self.state.snapshot(), self._key()
        for _ in range(self.rounds):
            if self.stopped or self.best_key == BEST_KEY:
                break
            weight = self.state.weight
            self._kick()
            self._descend_to_feasible()
            self._remember()
            key = self._key()
            if key >= anchor_key:
                anchor, anchor_key = self.state.snapshot(), key
            elif self.state.weight == weight:
                self.state.restore(anchor)
            else:
                self.state.rebuild(anchor.where)
                anchor = self.state.snapshot()

    def _key(self) -> tuple[float, float]:
        """Order of allocations: first by violation, then by worth."""
        state = self.state
        violation = state.violation() if self.scorer.constrained else 0.0
        return -violation, state.value() + state.weight * violation

    def _remember(self) -> None:
        key = self._key()
        if key > self.best_key:
            self.best_key = key
            self.best = self.state.where.copy()

    def _greedy(self) -> IntArray:
        """Items by decreasing deviation, each where the total worth is best; from nothing but the pins."""
        problem, scorer = self.problem, self.scorer
        brokers = np.arange(problem.broker_count)
        where = by_reserve(problem, np.arange(problem.item_count))
        fixed = self.open.sum(axis=1) == 1
        on = (where[None, :] == brokers[:, None]) & fixed
        cross = on.astype(np.float64) @ problem.covariance
        variance = np.einsum("bi,bi->b", cross, on)
        sums = np.einsum("fbi,bi->fb", scorer.features, on)
        worth = scorer.score(brokers, sums, variance, WEIGHTS[0])
        own = np.diag(problem.covariance)
        size = problem.mean_rate_msg_s + 2.0 * np.sqrt(np.clip(own, 0.0, None))
        for item in sorted(np.flatnonzero(~fixed), key=lambda i: (-size[i], i)):
            trial_sums = sums + scorer.features[:, :, item]
            trial_variance = variance + 2.0 * cross[:, item] + own[item]
            trial = scorer.score(brokers, trial_sums, trial_variance, WEIGHTS[0])
            broker = int(np.argmax(np.where(self.open[item], trial - worth, -np.inf)))
            sums[:, broker] = trial_sums[:, broker]
            variance[broker] = trial_variance[broker]
            worth[broker] = trial[broker]
            cross[broker] += problem.covariance[item]
            where[item] = broker
        return where

    def _descend_to_feasible(self) -> None:
        self._descend()
        if not self.scorer.constrained:
            return
        for weight in WEIGHTS[WEIGHTS.index(self.state.weight) + 1 :]:
            if self.stopped or self.state.violation() == 0:
                return
            self.state.set_weight(weight)
            self._descend()

    def _descend(self) -> None:
        """To a local optimum of moves and exchanges."""
        state = self.state
        brokers = self.problem.broker_count
        stale = np.triu(np.ones((brokers, brokers), dtype=bool), 1)
        while not self.stopped:
            gain, item, broker = state.best_move()
            if gain > self._least_gain():
                touched = (int(state.where[item]), broker)
                state.move(item, broker)
            else:
                found = self._first_swap(stale)
                if found is None:
                    return
                touched = found
            for each in touched:
                stale[each, each + 1 :] = True
                stale[:each, each] = True
            self._count()

    def _first_swap(self, stale: BoolArray) -> tuple[int, int] | None:
        """Apply the best exchange of the first stale pair that has a gainful one; worst brokers first."""
        state = self.state
        pairs = np.argwhere(stale)
        order: IntArray = np.argsort(state.worth[pairs].min(axis=1), kind="stable")
        for first, second in pairs[order]:
            gain, item, other = state.best_swap(int(first), int(second))
            if gain > self._least_gain():
                state.swap(item, other)
                return int(first), int(second)
            stale[first, second] = False
            self._count()
            if self.stopped:
                return None
        return None

    def _kick(self) -> None:
        """Scatter some items of two or three brokers over them, at random."""
        state, rng = self.state, self.rng
        brokers = self.problem.broker_count
        chosen = rng.permutation(brokers)[: int(rng.integers(2, 4))]
        if rng.random() < 0.5:
            chosen[0] = int(np.argmin(state.worth))
        members = np.flatnonzero(np.isin(state.where, chosen) & state.movable)
        if members.size == 0:
            return
        count = int(rng.integers(2, max(3, min(12, members.size // 3) + 1)))
        moved = rng.permutation(members)[:count]
        targets = [chosen[self.open[item, chosen]] for item in moved]
        state.move_all(
            tuple(
                (int(item), int(rng.choice(options)))
                for item, options in zip(moved, targets, strict=True)
                if len(options)
            )
        )

    def _least_gain(self) -> float:
        return MIN_GAIN * abs(self.state.value()) + 1e-300

    def _count(self) -> None:
        self.steps += 1
        if self.steps % 16 == 0:
            violation, score = self.best_key
            self.stopped = self.stop(Progress("search", self.steps, score if violation == 0 else -np.inf))
