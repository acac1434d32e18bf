"""Choosing among allocations that the objective cannot tell apart: see `judgement.ties`.

One place for all solvers: whatever a solver returns, `settled` looks for a better allocation among those that
tie with it. It starts from the best of the solver's answer and two round-robin allocations, and applies moves
and exchanges of items that leave the objective and the constraints as they are, first those that relieve the
broker with the largest risk, then those that even out utilisations. So the outcome is never worse, in either
respect, than round robin where that ties; it is a local optimum, and no more is claimed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from mangrove.planning.judgement.assessment import assess
from mangrove.planning.judgement.feasibility import placements
from mangrove.planning.judgement.result import Result, reward_offset
from mangrove.planning.judgement.scoring import Scorer
from mangrove.planning.judgement.ties import rank_among_ties, tie_width, tied
from mangrove.planning.problem.arrays import BoolArray, FloatArray, IntArray
from mangrove.planning.problem.problem import Problem
from mangrove.planning.solvers.neighbourhood import Neighbourhood
from mangrove.planning.solvers.round_robin import by_reserve
from mangrove.planning.solvers.stop import Progress, Stop

# Relief below this share of the largest log risk is not worth a step, nor is evening out below this share of
# the spread, or once the spread is below a thousandth of the utilisation.
_MIN_RELIEF = 1e-4
_MIN_EVENING = 1e-2
_EVEN_ENOUGH = 1e-3
# So heavy that no step may break a constraint to keep the objective.
_VIOLATION_WEIGHT = 1e8


def settled(result: Result, stop: Stop) -> Result:
    """The best allocation found among those that tie with the result; the result itself if none is better."""
    problem = result.problem
    open_ = placements(problem).open
    if not result.feasible or not (open_.sum(axis=1) > 1).any():
        return result
    best, assessment = np.array(result.assignment, dtype=np.int64), result.assessment

    def take_if_better(candidate: IntArray) -> None:
        nonlocal best, assessment
        judged = assess(problem, candidate)
        better = rank_among_ties(judged) < rank_among_ties(assessment)
        if judged.feasible and better and tied(problem, result.assessment, judged):
            best, assessment = candidate, judged

    for candidate in _round_robins(problem):
        take_if_better(candidate)
    descent = _Descent(problem, open_, best, result.assessment.score)
    while descent.step():
        if stop(Progress(result.solver, result.steps + descent.steps, result.assessment.score)):
            break
    take_if_better(descent.where)
    return replace(
        result,
        assignment=tuple(int(broker) for broker in best),
        assessment=assessment,
        bound=max(result.bound, replace(result, assessment=assessment).value),
    )


def _round_robins(problem: Problem) -> Iterator[IntArray]:
    """Round robin in the order of the items, and with the largest first, which evens out better."""
    yield by_reserve(problem, np.arange(problem.item_count))
    deviation = np.sqrt(np.clip(np.diag(problem.covariance), 0.0, None))
    order: IntArray = np.argsort(-(problem.mean_rate_msg_s + 2.0 * deviation), kind="stable")
    yield by_reserve(problem, order)


@dataclass(frozen=True, slots=True)
class _Steps:
    """Possible steps between two brokers each, as arrays of one shape; infinite gains are no gains."""

    keeps: BoolArray
    """The objective and the constraints stay as they are."""
    risk_before: FloatArray
    risk_after: FloatArray
    """The larger log risk of the two brokers."""
    evened: FloatArray
    """How much the sum of squared deviations of the utilisations falls."""


class _Descent:
    """An allocation, and the steps that relieve its worst broker or even out its brokers."""

    def __init__(self, problem: Problem, open_: BoolArray, start: IntArray, score: float) -> None:
        self.steps = 0
        self._problem = problem
        self._scorer = Scorer(problem)
        self._state = Neighbourhood(self._scorer, open_, start, _VIOLATION_WEIGHT)
        self._least_score = score - reward_offset(problem) - tie_width(problem, score)
        brokers, items = problem.broker_count, problem.item_count
        self._max_steps = items + 100
        self._risk, self._used = np.empty(brokers), np.empty(brokers)
        self._arrive_risk, self._arrive_used = np.empty((brokers, items)), np.empty((brokers, items))
        self._leave_risk, self._leave_used = np.empty(items), np.empty(items)
        for broker in range(brokers):
            self._look_at(broker)

    @property
    def where(self) -> IntArray:
        return self._state.where

    def step(self) -> bool:
        """Apply the best move, or else the first exchange that helps; False at a local optimum."""
        if self.steps >= self._max_steps:
            return False
        touched = self._move() or self._swap()
        if touched is None:
            return False
        for broker in touched:
            self._look_at(broker)
        self.steps += 1
        return True

    def _look_at(self, broker: int) -> None:
        state, scorer = self._state, self._scorer
        sums = state.sums[:, broker]
        self._risk[broker] = scorer.log_risk(broker, sums, np.asarray(state.variance[broker]))
        self._used[broker] = scorer.utilisation(broker, sums)
        sums, variance = state.arrivals(broker)
        self._arrive_risk[broker] = scorer.log_risk(broker, sums, variance)
        self._arrive_used[broker] = scorer.utilisation(broker, sums)
        inside = np.flatnonzero(state.where == broker)
        sums, variance = state.departures(broker, inside)
        self._leave_risk[inside] = scorer.log_risk(broker, sums, variance)
        self._leave_used[inside] = scorer.utilisation(broker, sums)

    def _move(self) -> tuple[int, int] | None:
        state = self._state
        source = state.where
        gains = state.arrive + state.leave
        steps = _Steps(
            keeps=gains >= self._least_score - state.value(),
            risk_before=np.maximum(self._risk[:, None], self._risk[source]),
            risk_after=np.maximum(self._arrive_risk, self._leave_risk),
            evened=self._evened(self._used[:, None], self._used[source], self._arrive_used, self._leave_used),
        )
        chosen = self._best(steps)
        if chosen is None:
            return None
        broker, item = divmod(chosen, len(source))
        touched = int(source[item]), broker
        state.move(item, broker)
        return touched

    def _swap(self) -> tuple[int, int] | None:
        """Exchanges with the brokers that stand out: the riskiest, the fullest and the emptiest."""
        state, scorer = self._state, self._scorer
        standing_out = dict.fromkeys(
            int(b) for b in (np.argmax(self._risk), np.argmax(self._used), np.argmin(self._used))
        )
        seen: set[frozenset[int]] = set()
        for first in standing_out:
            for second in range(self._problem.broker_count):
                if second == first or frozenset((first, second)) in seen:
                    continue
                seen.add(frozenset((first, second)))
                exchanges = state.exchanges(first, second)
                if exchanges is None:
                    continue
                score = np.full(exchanges.shape, state.value() - state.worth[first] - state.worth[second])
                risks, used = [], []
                for broker, (sums, variance) in zip((first, second), exchanges.after, strict=True):
                    score += scorer.score(broker, sums, variance, state.weight)
                    risks.append(scorer.log_risk(broker, sums, variance))
                    used.append(scorer.utilisation(broker, sums))
                steps = _Steps(
                    keeps=score >= self._least_score,
                    risk_before=np.full(exchanges.shape, max(self._risk[first], self._risk[second])),
                    risk_after=np.maximum(*risks),
                    evened=self._evened(self._used[first], self._used[second], *used),
                )
                chosen = self._best(steps)
                if chosen is not None:
                    row, column = divmod(chosen, exchanges.right.size)
                    state.swap(int(exchanges.left[row]), int(exchanges.right[column]))
                    return first, second
        return None

    def _evened(
        self, one: FloatArray, other: FloatArray, one_after: FloatArray, other_after: FloatArray
    ) -> FloatArray:
        """Fall of `Σ(u − ū)² = Σu² − (Σu)²/k` when two brokers' utilisations change."""
        total, brokers = float(self._used.sum()), len(self._used)
        change = one_after + other_after - one - other
        squares = one**2 + other**2 - one_after**2 - other_after**2
        return np.asarray(squares + ((total + change) ** 2 - total**2) / brokers, dtype=np.float64)

    def _best(self, steps: _Steps) -> int | None:
        """Index of the step that relieves the largest risk most, else of the one that evens out most."""
        largest = float(self._risk.max())
        if largest > -np.inf:
            touches_largest = steps.keeps & (steps.risk_before == largest)
            relief = np.where(touches_largest, largest - steps.risk_after, 0.0)
            chosen = int(np.argmax(relief))
            if relief.flat[chosen] > _MIN_RELIEF * abs(largest):
                return chosen
        mean = float(self._used.mean())
        spread = float(np.square(self._used - mean).sum())
        if spread <= len(self._used) * (_EVEN_ENOUGH * mean) ** 2:
            return None
        # Nobody may come up to the largest risk: the two kinds of steps would undo each other for ever.
        allowed = steps.keeps & ((steps.risk_after < largest) | (largest == -np.inf))
        evened = np.where(allowed, steps.evened, 0.0)
        chosen = int(np.argmax(evened))
        return chosen if evened.flat[chosen] > _MIN_EVENING * spread else None
