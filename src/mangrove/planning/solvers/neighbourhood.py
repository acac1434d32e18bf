"""Moves and swaps of a local search, judged incrementally by the normal model.

The state keeps, for every broker b and item i, the cross term `cross[b, i] = Σ_{j on b} cov(i, j)`. With it
the variance of a broker after item i arrives (`+ 2·cross[b, i] + var(i)`) or leaves (`− 2·cross[b, i] +
var(i)`) is known at once, and a move touches two rows: O(n) work per move, whatever the number of brokers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mangrove.planning.judgement.scoring import Scorer
from mangrove.planning.problem.arrays import BoolArray, FloatArray, IntArray
from mangrove.planning.solvers.allocation_state import AllocationState

Sums = tuple[FloatArray, FloatArray]
"""Linear sums and variance of sets of items, as a scorer takes them."""


@dataclass(frozen=True, slots=True)
class Exchanges:
    """Items of two brokers that may change places, and both brokers after each exchange `[left, right]`."""

    left: IntArray
    right: IntArray
    after: tuple[Sums, Sums]

    @property
    def shape(self) -> tuple[int, int]:
        return self.left.size, self.right.size


class Neighbourhood(AllocationState):
    """An allocation judged by the normal model."""

    def __init__(self, scorer: Scorer, open_: BoolArray, where: IntArray, weight: float) -> None:
        self.covariance = scorer.problem.covariance
        self.own = np.diag(self.covariance).copy()
        super().__init__(scorer, open_, where, weight)

    def violation(self) -> float:
        brokers = np.arange(self.open.shape[0])
        return float(self.scorer.violation(brokers, self.sums, self.variance).sum())

    def best_swap(self, first: int, second: int) -> tuple[float, int, int]:
        exchanges = self.exchanges(first, second)
        if exchanges is None:
            return -np.inf, -1, -1
        total = np.full(exchanges.shape, -self.worth[first] - self.worth[second])
        for broker, (sums, variance) in zip((first, second), exchanges.after, strict=True):
            total += self.scorer.score(broker, sums, variance, self.weight)
        row, column = divmod(int(np.argmax(total)), total.shape[1])
        return float(total[row, column]), int(exchanges.left[row]), int(exchanges.right[column])

    def exchanges(self, first: int, second: int) -> Exchanges | None:
        """All exchanges of one item of each of two brokers; None when one has nothing to give."""
        left, right = self.exchangeable(first, second)
        if left.size == 0 or right.size == 0:
            return None
        # Rows are items of the first broker, columns of the second; both brokers in the same layout.
        both = self.own[left][:, None] + self.own[right] - 2.0 * self.covariance[left[:, None], right]
        after = []
        for broker, sign in ((first, 1.0), (second, -1.0)):
            features, cross = self.scorer.features[:, broker], self.cross[broker]
            # What a row takes away from the first broker it brings to the second.
            gone = self.sums[:, broker, None] - sign * features[:, left]
            sums = gone[:, :, None] + sign * features[:, None, right]
            steady = self.variance[broker] - 2.0 * sign * cross[left]
            after.append((sums, (both + steady[:, None]) + 2.0 * sign * cross[right]))
        return Exchanges(left, right, (after[0], after[1]))

    def arrivals(self, broker: int) -> Sums:
        """Sums and variance of the broker with each item added."""
        features = self.scorer.features[:, broker, :]
        twice = 2.0 * self.cross[broker]
        return self.sums[:, broker, None] + features, self.variance[broker] + twice + self.own

    def departures(self, broker: int, items: IntArray) -> Sums:
        """Sums and variance of the broker with each of some of its items taken away."""
        features = self.scorer.features[:, broker, :]
        twice = 2.0 * self.cross[broker, items]
        return (
            self.sums[:, broker, None] - features[:, items],
            self.variance[broker] - twice + self.own[items],
        )

    def _sum_up(self, on: FloatArray) -> None:
        self.cross = on @ self.covariance
        self.variance = np.einsum("bi,bi->b", self.cross, on)

    def _carry(self, item: int, source: int, broker: int) -> None:
        row = self.covariance[item]
        self.variance[source] += self.own[item] - 2.0 * self.cross[source, item]
        self.variance[broker] += self.own[item] + 2.0 * self.cross[broker, item]
        self.cross[source] -= row
        self.cross[broker] += row

    def _judged(self, broker: int, inside: IntArray) -> tuple[float, FloatArray, FloatArray]:
        scorer, weight = self.scorer, self.weight
        worth = scorer.score(broker, self.sums[:, broker], np.asarray(self.variance[broker]), weight)
        arriving = scorer.score(broker, *self.arrivals(broker), weight)
        return float(worth), arriving, scorer.score(broker, *self.departures(broker, inside), weight)

    def _arrays(self) -> tuple[FloatArray, ...]:
        return *super()._arrays(), self.variance, self.cross
