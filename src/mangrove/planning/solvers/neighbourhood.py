"""Moves and swaps of a local search, judged incrementally.

The state keeps, for every broker b and item i, the cross term `cross[b, i] = Σ_{j on b} cov(i, j)`. With it
the variance of a broker after item i arrives (`+ 2·cross[b, i] + var(i)`) or leaves (`− 2·cross[b, i] +
var(i)`) is known at once, and a move touches two rows: O(n) work per move, whatever the number of brokers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mangrove.planning.judgement.scoring import Scorer
from mangrove.planning.problem.arrays import BoolArray, FloatArray, IntArray

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


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A state to come back to."""

    where: IntArray
    sums: FloatArray
    variance: FloatArray
    cross: FloatArray
    worth: FloatArray
    arrive: FloatArray
    leave: FloatArray


class Neighbourhood:
    """An allocation with the gain of every move at hand.

    `arrive[b, i]` is the gain of broker b when item i arrives (−∞ where it may not, or is already),
    `leave[i]` the gain of its broker when item i leaves; their sum is the gain of the move.
    """

    def __init__(self, scorer: Scorer, open_: BoolArray, where: IntArray, weight: float) -> None:
        self.scorer = scorer
        self.covariance = scorer.problem.covariance
        self.own = np.diag(self.covariance).copy()
        self.open = np.ascontiguousarray(open_.T)
        self.movable = open_.sum(axis=1) > 1
        self.weight = weight
        self.rebuild(where)

    def rebuild(self, where: IntArray) -> None:
        """Take an allocation, summing everything afresh."""
        brokers = self.open.shape[0]
        self.where = where.copy()
        on = (where[None, :] == np.arange(brokers)[:, None]).astype(np.float64)
        self.cross = on @ self.covariance
        self.variance = np.einsum("bi,bi->b", self.cross, on)
        self.sums = np.einsum("fbi,bi->fb", self.scorer.features, on)
        self.set_weight(self.weight)

    def set_weight(self, weight: float) -> None:
        """Change what violations cost; every gain changes with it."""
        self.weight = weight
        brokers, items = self.open.shape
        self.worth = self.scorer.score(np.arange(brokers), self.sums, self.variance, weight)
        self.arrive = np.empty((brokers, items))
        self.leave = np.empty(items)
        for broker in range(brokers):
            self._refresh(broker)

    def value(self) -> float:
        """Total score of the allocation, violations included at the present weight."""
        return float(self.worth.sum())

    def violation(self) -> float:
        """Total violation of the allocation."""
        brokers = np.arange(self.open.shape[0])
        return float(self.scorer.violation(brokers, self.sums, self.variance).sum())

    def snapshot(self) -> Snapshot:
        return Snapshot(
            self.where.copy(),
            self.sums.copy(),
            self.variance.copy(),
            self.cross.copy(),
            self.worth.copy(),
            self.arrive.copy(),
            self.leave.copy(),
        )

    def restore(self, state: Snapshot) -> None:
        """Return to a snapshot taken at the present weight."""
        self.where[:] = state.where
        self.sums[:] = state.sums
        self.variance[:] = state.variance
        self.cross[:] = state.cross
        self.worth[:] = state.worth
        self.arrive[:] = state.arrive
        self.leave[:] = state.leave

    def best_move(self) -> tuple[float, int, int]:
        """The move with the largest gain: `(gain, item, broker)`."""
        gains = self.arrive + self.leave
        flat = int(np.argmax(gains))
        broker, item = divmod(flat, gains.shape[1])
        return float(gains[broker, item]), item, broker

    def best_swap(self, first: int, second: int) -> tuple[float, int, int]:
        """The exchange between two brokers with the largest gain: `(gain, item of first, item of second)`."""
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
        left = np.flatnonzero((self.where == first) & self.movable & self.open[second])
        right = np.flatnonzero((self.where == second) & self.movable & self.open[first])
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

    def move(self, item: int, broker: int) -> None:
        """Put the item on the broker."""
        self.move_all(((item, broker),))

    def swap(self, item: int, other: int) -> None:
        """Exchange the brokers of two items."""
        self.move_all(((item, int(self.where[other])), (other, int(self.where[item]))))

    def move_all(self, moves: tuple[tuple[int, int], ...]) -> None:
        """Apply moves, then bring the gains of the brokers they touch up to date."""
        touched: set[int] = set()
        features = self.scorer.features
        for item, broker in moves:
            source = int(self.where[item])
            if source == broker:
                continue
            row = self.covariance[item]
            self.variance[source] += self.own[item] - 2.0 * self.cross[source, item]
            self.variance[broker] += self.own[item] + 2.0 * self.cross[broker, item]
            self.cross[source] -= row
            self.cross[broker] += row
            self.sums[:, source] -= features[:, source, item]
            self.sums[:, broker] += features[:, broker, item]
            self.where[item] = broker
            touched |= {source, broker}
        for broker in sorted(touched):
            self._refresh(broker)

    def _refresh(self, broker: int) -> None:
        """Gains of arriving at and leaving one broker."""
        scorer, weight = self.scorer, self.weight
        sums, variance = self.sums[:, broker], self.variance[broker]
        self.worth[broker] = scorer.score(broker, sums, np.asarray(variance), weight)
        row = self.arrive[broker]
        np.subtract(scorer.score(broker, *self.arrivals(broker), weight), self.worth[broker], out=row)
        members = self.where == broker
        row[members | ~self.open[broker]] = -np.inf
        inside = np.flatnonzero(members)
        leaving = scorer.score(broker, *self.departures(broker, inside), weight)
        self.leave[inside] = np.where(self.movable[inside], leaving - self.worth[broker], -np.inf)
