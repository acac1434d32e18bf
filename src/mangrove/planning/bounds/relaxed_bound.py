"""The relaxation's bound for partial allocations, for problems whose sets of items cannot be listed."""

from __future__ import annotations

import numpy as np

from mangrove.planning.bounds.relaxation import Relaxation
from mangrove.planning.judgement.scoring import Feature, Scorer
from mangrove.planning.problem.arrays import FloatArray, IntArray


class RelaxedBound:
    """Bounds a node by what its brokers must carry at least.

    A broker's mean only grows. Its variance may fall when an item that runs against its own arrives, but
    never below `V + Σ_i min(0, var(i) + 2·cross(i) + Σ_j min(0, cov(i, j)))` over the undecided items i, j:
    each item that arrives changes the variance by its own term and by its covariances with what is there
    and with what else arrives, and those that would raise it may stay away.
    """

    def __init__(self, scorer: Scorer, order: IntArray, fixed: IntArray) -> None:
        problem = scorer.problem
        self._scorer = scorer
        self._relaxation = Relaxation(problem)
        self.rounding = 1e-12
        self._order = order
        self._covariance = problem.covariance
        self._own = np.diag(problem.covariance)
        brokers = np.arange(problem.broker_count)
        on = (fixed[None, :] == brokers[:, None]).astype(np.float64)
        self._cross: FloatArray = on @ problem.covariance
        self._variance: FloatArray = np.einsum("bi,bi->b", self._cross, on)
        self._sums: FloatArray = np.einsum("fbi,bi->fb", scorer.features, on)
        # Per depth: what the undecided items could take off each other.
        falling = np.minimum(problem.covariance - np.diag(self._own), 0.0)
        self._mutual = [falling[np.ix_(order[d:], order[d:])].sum(axis=1) for d in range(len(order) + 1)]

    def children(self, depth: int) -> list[float]:
        item = int(self._order[depth])
        rest = self._order[depth + 1 :]
        stay = self._least_variance(self._variance, self._cross, depth + 1, rest)
        grown = self._variance + self._own[item] + 2.0 * self._cross[:, item]
        take = self._least_variance(grown, self._cross + self._covariance[item], depth + 1, rest)
        sums = self._sums + self._scorer.features[:, :, item]
        brokers = range(len(stay))
        now = [self._relaxation.remaining(b, float(self._sums[0, b]), float(stay[b])) for b in brokers]
        then = [self._relaxation.remaining(b, float(sums[0, b]), float(take[b])) for b in brokers]
        bounds = []
        for broker in brokers:
            others = sum(value for b, value in enumerate(now) if b != broker)
            fits = self._fits(broker, sums)
            bounds.append(others + then[broker] - self._relaxation.dues if fits else -np.inf)
        return bounds

    def push(self, depth: int, broker: int) -> None:
        self._place(int(self._order[depth]), broker, 1.0)

    def pop(self, depth: int, broker: int) -> None:
        self._place(int(self._order[depth]), broker, -1.0)

    def _place(self, item: int, broker: int, sign: float) -> None:
        if sign < 0:
            self._cross[broker] -= self._covariance[item]
        self._variance[broker] += sign * (self._own[item] + 2.0 * self._cross[broker, item])
        if sign > 0:
            self._cross[broker] += self._covariance[item]
        self._sums[:, broker] += sign * self._scorer.features[:, broker, item]

    def _least_variance(
        self, variance: FloatArray, cross: FloatArray, depth: int, rest: IntArray
    ) -> FloatArray:
        change = self._own[rest] + 2.0 * cross[:, rest] + self._mutual[depth]
        least: FloatArray = np.maximum(variance + np.minimum(change, 0.0).sum(axis=1), 0.0)
        return least

    def _fits(self, broker: int, sums: FloatArray) -> bool:
        """Counts and volumes only grow, so a bound once exceeded stays exceeded."""
        bounds = self._scorer.problem.constraints
        row = self._scorer.row
        if Feature.COUNT in row and sums[row[Feature.COUNT], broker] > bounds.max_items[broker] + 1e-9:
            return False
        return not (
            Feature.VOLUME in row
            and sums[row[Feature.VOLUME], broker] > bounds.max_volume[broker] * (1 + 1e-6)
        )
