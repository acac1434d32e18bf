"""An allocation with the gain of every move at hand: what a local search needs, whatever judges it.

How sets are judged after an item comes or goes, and which running sums that takes, is left to the kinds of
state: by the normal model in `neighbourhood`, by observed windows in `scenario_neighbourhood`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from mangrove.planning.judgement.scoring import Scorer
from mangrove.planning.problem.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A state to come back to."""

    where: IntArray
    running: tuple[FloatArray, ...]


class AllocationState(ABC):
    """`arrive[b, i]` is the gain of broker b when item i arrives (−∞ where it may not, or is already).

    `leave[i]` is the gain of its broker when item i leaves; their sum is the gain of the move.
    """

    def __init__(self, scorer: Scorer, open_: BoolArray, where: IntArray, weight: float) -> None:
        self.scorer = scorer
        self.open = np.ascontiguousarray(open_.T)
        self.movable = open_.sum(axis=1) > 1
        self.weight = weight
        self.rebuild(where)

    def rebuild(self, where: IntArray) -> None:
        """Take an allocation, summing everything afresh."""
        brokers = self.open.shape[0]
        self.where = where.copy()
        on = (where[None, :] == np.arange(brokers)[:, None]).astype(np.float64)
        self.sums = np.einsum("fbi,bi->fb", self.scorer.features, on)
        self._sum_up(on)
        self.set_weight(self.weight)

    def set_weight(self, weight: float) -> None:
        """Change what violations cost; every gain changes with it."""
        self.weight = weight
        brokers, items = self.open.shape
        self.worth = np.empty(brokers)
        self.arrive = np.empty((brokers, items))
        self.leave = np.empty(items)
        for broker in range(brokers):
            self._refresh(broker)

    def value(self) -> float:
        """Total score of the allocation, violations included at the present weight."""
        return float(self.worth.sum())

    def snapshot(self) -> Snapshot:
        return Snapshot(self.where.copy(), tuple(array.copy() for array in self._arrays()))

    def restore(self, state: Snapshot) -> None:
        """Return to a snapshot taken at the present weight."""
        self.where[:] = state.where
        for array, kept in zip(self._arrays(), state.running, strict=True):
            array[...] = kept

    def best_move(self) -> tuple[float, int, int]:
        """The move with the largest gain: `(gain, item, broker)`."""
        gains = self.arrive + self.leave
        flat = int(np.argmax(gains))
        broker, item = divmod(flat, gains.shape[1])
        return float(gains[broker, item]), item, broker

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
            self._carry(item, source, broker)
            self.sums[:, source] -= features[:, source, item]
            self.sums[:, broker] += features[:, broker, item]
            self.where[item] = broker
            touched |= {source, broker}
        for broker in sorted(touched):
            self._refresh(broker)

    def exchangeable(self, first: int, second: int) -> tuple[IntArray, IntArray]:
        """Items of each of two brokers that may go to the other."""
        left = np.flatnonzero((self.where == first) & self.movable & self.open[second])
        right = np.flatnonzero((self.where == second) & self.movable & self.open[first])
        return left, right

    @abstractmethod
    def best_swap(self, first: int, second: int) -> tuple[float, int, int]:
        """The exchange between two brokers with the largest gain: `(gain, item of first, item of second)`."""

    @abstractmethod
    def violation(self) -> float:
        """Total violation of the allocation."""

    @abstractmethod
    def _sum_up(self, on: FloatArray) -> None:
        """Running sums afresh; `on[b, i]` is 1 where item i is on broker b."""

    @abstractmethod
    def _carry(self, item: int, source: int, broker: int) -> None:
        """Bring the running sums up to date for one move."""

    @abstractmethod
    def _judged(self, broker: int, inside: IntArray) -> tuple[float, FloatArray, FloatArray]:
        """Scores of a broker: as it is, with each item added, and with each of those inside taken away."""

    def _arrays(self) -> tuple[FloatArray, ...]:
        """Everything that a snapshot holds besides the allocation."""
        return self.sums, self.worth, self.arrive, self.leave

    def _refresh(self, broker: int) -> None:
        """Gains of arriving at and leaving one broker."""
        members = self.where == broker
        inside = np.flatnonzero(members)
        worth, arriving, leaving = self._judged(broker, inside)
        self.worth[broker] = worth
        np.subtract(arriving, worth, out=self.arrive[broker])
        self.arrive[broker][members | ~self.open[broker]] = -np.inf
        self.leave[inside] = np.where(self.movable[inside], leaving - worth, -np.inf)
