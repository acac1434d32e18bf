"""Moves and swaps of a local search, judged by observed windows.

The state keeps the load of every broker in every scenario; an item that comes or goes is one vector added or
taken away. Every arrival and departure is judged by all scenarios. Of the exchanges between two brokers, too
many for that, the most promising are: those that lower the mean load of the brokers' own worst scenarios.
"""

from __future__ import annotations

import numpy as np

from mangrove.planning.empirical.scenarios import Scenarios
from mangrove.planning.judgement.scoring import Scorer
from mangrove.planning.problem.arrays import BoolArray, FloatArray, IntArray
from mangrove.planning.solvers.allocation_state import AllocationState

# Exchanges of two brokers that are judged by all scenarios.
PROMISING = 64
# Loads of so many sets and scenarios are held at once.
CELLS = 1 << 21
_LARGEST_EXPONENT = 50.0


class ScenarioNeighbourhood(AllocationState):
    """An allocation judged by the problem's scenarios."""

    def __init__(self, scorer: Scorer, open_: BoolArray, where: IntArray, weight: float) -> None:
        assert scorer.problem.scenarios is not None
        self.scenarios: Scenarios = scorer.problem.scenarios
        super().__init__(scorer, open_, where, weight)

    def best_swap(self, first: int, second: int) -> tuple[float, int, int]:
        left, right = self.exchangeable(first, second)
        if left.size == 0 or right.size == 0:
            return -np.inf, -1, -1
        rows, columns = self._promising(first, second, left, right)
        rates = self.scenarios.rates_msg_s
        total = np.full(len(rows), -self.worth[first] - self.worth[second])
        for broker, gone, come in ((first, left[rows], right[columns]), (second, right[columns], left[rows])):
            features = self.scorer.features[:, broker]
            sums = self.sums[:, broker, None] - features[:, gone] + features[:, come]
            total += self._scores(broker, sums, self.loads[broker] - rates[gone] + rates[come])
        best = int(np.argmax(total))
        return float(total[best]), int(left[rows[best]]), int(right[columns[best]])

    def violation(self) -> float:
        brokers = np.arange(self.open.shape[0])
        overload = self.scorer.observed(brokers, self.sums, self.loads)
        return float(self.scorer.observed_violation(brokers, self.sums, overload).sum())

    def _sum_up(self, on: FloatArray) -> None:
        self.loads = on @ self.scenarios.rates_msg_s

    def _carry(self, item: int, source: int, broker: int) -> None:
        rates = self.scenarios.rates_msg_s[item]
        self.loads[source] -= rates
        self.loads[broker] += rates

    def _judged(self, broker: int, inside: IntArray) -> tuple[float, FloatArray, FloatArray]:
        features, rates = self.scorer.features[:, broker, :], self.scenarios.rates_msg_s
        own, loads = self.sums[:, broker, None], self.loads[broker]
        worth = self._scores(broker, own, loads[None, :])[0]
        arriving = np.empty(len(rates))
        # Who may not come is not judged.
        guests = np.flatnonzero((self.where != broker) & self.open[broker] & self.movable)
        step = max(1, CELLS // self.scenarios.count)
        for start in range(0, len(guests), step):
            some = guests[start : start + step]
            arriving[some] = self._scores(broker, own + features[:, some], loads + rates[some])
        staying = np.ones(len(rates), dtype=bool)
        staying[guests] = False
        arriving[staying] = worth
        leaving = np.empty(len(inside))
        for start in range(0, len(inside), step):
            some = inside[start : start + step]
            leaving[start : start + step] = self._scores(broker, own - features[:, some], loads - rates[some])
        return float(worth), arriving, leaving

    def _scores(self, broker: int, sums: FloatArray, loads: FloatArray) -> FloatArray:
        overload = self.scorer.observed(broker, sums, loads)
        return self.scorer.observed_score(broker, sums, overload, self.weight)

    def _arrays(self) -> tuple[FloatArray, ...]:
        return *super()._arrays(), self.loads

    def _promising(
        self, first: int, second: int, left: IntArray, right: IntArray
    ) -> tuple[IntArray, IntArray]:
        """Rows and columns of the exchanges that promise most.

        In the tail a risk falls by a factor e when the load falls by the tail's mean excess. What an exchange
        takes off a broker's worst scenarios, in that unit, says about how its risk will change.
        """
        if left.size * right.size <= PROMISING:
            rows, columns = np.divmod(np.arange(left.size * right.size), right.size)
            return rows, columns
        promised = np.zeros((left.size, right.size))
        tail = self.scenarios.tail_count
        for broker, sign in ((first, 1.0), (second, -1.0)):
            worst = np.argpartition(-self.loads[broker], tail)[:tail]
            weights = self.scenarios.weights[worst]
            level = self.scenarios.rates_msg_s[:, worst] @ weights / max(float(weights.sum()), 1e-300)
            overload = self.scorer.observed(broker, self.sums[:, broker, None], self.loads[broker][None, :])
            unit = max(float(overload.mean_excess_msg_s[0]), 1e-9 * float(np.abs(level).max(initial=1.0)))
            features = self.scorer.features[:, broker]
            gone = self.sums[:, broker, None] - sign * features[:, left]
            sums = gone[:, :, None] + sign * features[:, None, right]
            room = self.scorer.capacity(broker, sums) - self.scorer.capacity(broker, self.sums[:, broker])
            change = sign * (level[right][None, :] - level[left][:, None]) - room
            log = float(overload.log_risk[0]) + np.clip(change / unit, -_LARGEST_EXPONENT, _LARGEST_EXPONENT)
            promised += np.minimum(np.exp(np.minimum(log, 0.0)), 1.0)
        chosen = np.argpartition(promised.ravel(), PROMISING)[:PROMISING]
        rows, columns = np.divmod(np.sort(chosen), right.size)
        return rows, columns
