"""Joint windows of the items: the rates of all items in the same moments, and how much each moment counts.

The load of a set of items in a scenario is the sum of their rates, so a broker's loads change by one vector
when an item comes or goes. A risk is the weighted share of scenarios above the capacity as long as enough of
them are; farther out it follows the tail of the largest loads (`tails`). Nothing is assumed about how rates
are distributed, nor about how they depend on each other, within what was observed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri_exp

from mangrove.planning.empirical import tails
from mangrove.planning.problem.arrays import FloatArray, IntArray

# The share of scenarios, those of a set's largest loads, that make its tail. With fewer a search finds sets
# whose few largest windows happen to be mild: it promises more, and later days keep less.
TAIL_SHARE = 0.1
# Fewer scenarios than this say nothing about overload.
MIN_SCENARIOS = 100
# Ways to deal the items to the brokers from which the shape is taken.
_DEALS = 8
_MAX_SHAPE = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Scenarios:
    """`rates_msg_s[item, scenario]` and the probability of each scenario; `shape` is that of all tails.

    One shape for all sets: from the 50 largest loads of one set it is known to ±0.2, and a search over
    thousands of sets would choose those where it happens to be small. So the sets of a problem share theirs
    (a regional estimate), it is not below 0 (a tail shorter than exponential is not relied on), and only the
    scale is each set's own.
    """

    rates_msg_s: FloatArray
    weights: FloatArray
    shape: float = 0.0

    @property
    def count(self) -> int:
        """Number of scenarios."""
        return len(self.weights)

    @property
    def tail_count(self) -> int:
        """How many of a set's largest loads make its tail."""
        return int(TAIL_SHARE * self.count)

    def loads(self, members: IntArray) -> FloatArray:
        """Load of a set in each scenario."""
        return np.asarray(self.rates_msg_s[members].sum(axis=0), dtype=np.float64)

    def scaled(self, load: float) -> Scenarios:
        """The same moments at `load` times the rates."""
        return Scenarios(self.rates_msg_s * load, self.weights, self.shape)

    def overload(self, loads: FloatArray, capacity: FloatArray) -> Overload:
        """Judge sets, `loads[set, scenario]`, against `capacity[set]`."""
        loads = np.atleast_2d(loads)
        limit = np.broadcast_to(np.asarray(capacity, dtype=np.float64), loads.shape[:1])
        place = self.count - self.tail_count - 1
        threshold = np.partition(loads, place, axis=1)[:, place]
        # Where the capacity is below the threshold the same sums give the share itself.
        level = np.minimum(threshold, limit)
        excess = loads - level[:, None]
        share = (excess > 0).astype(np.float64) @ self.weights
        np.maximum(excess, 0.0, out=excess)
        mean = np.divide(excess @ self.weights, share, out=np.zeros(len(share)), where=share > 0)
        return Overload(level, share, mean, limit, self.shape)


@dataclass(frozen=True, slots=True, eq=False)
class Overload:
    """Sets against their capacities: beyond `level`, at most the capacity, lies the part that was summed."""

    level: FloatArray
    share: FloatArray
    mean_excess_msg_s: FloatArray
    """of the loads beyond the level"""
    capacity: FloatArray
    shape: float

    @property
    def log_risk(self) -> FloatArray:
        """log P(load > capacity)."""
        with np.errstate(divide="ignore"):
            share = np.log(self.share)
        excess = self.capacity - self.level
        return np.asarray(share + tails.log_survival(excess, self._scale, self.shape), dtype=np.float64)

    @property
    def margin(self) -> FloatArray:
        """The z of a normal load with this risk: what the normal model's formulas take."""
        log = np.minimum(self.log_risk, -1e-300)
        certain = self.share >= 1.0
        return np.asarray(np.where(certain & (self.capacity <= self.level), -np.inf, -ndtri_exp(log)))

    @property
    def expected_excess_msg_s(self) -> FloatArray:
        """E[max(load − capacity, 0)]."""
        beyond = tails.mean_excess(self.capacity - self.level, self._scale, self.shape)
        return np.asarray(np.exp(self.log_risk) * beyond, dtype=np.float64)

    @property
    def _scale(self) -> FloatArray:
        return np.asarray((1.0 - self.shape) * self.mean_excess_msg_s, dtype=np.float64)


def with_common_shape(scenarios: Scenarios, brokers: int) -> Scenarios:
    """The same scenarios with the shape of their sets: items dealt to so many brokers in several ways.

    L-moment ratios of the tails are averaged, weighted alike, and the average's shape is taken (Hosking and
    Wallis, Regional Frequency Analysis, 1997). Nothing is random: the ways are strides through the items.
    """
    items = len(scenarios.rates_msg_s)
    order: IntArray = np.argsort(-scenarios.rates_msg_s.mean(axis=1), kind="stable")
    ratios = []
    for deal in range(_DEALS):
        places = (np.arange(items) * _coprime(items, 2 * deal + 1)) % items
        for broker in range(brokers):
            members = order[places[broker::brokers]]
            if len(members):
                ratios.append(_tail_ratio(scenarios, scenarios.loads(members)))
    known = [ratio for ratio in ratios if ratio is not None]
    shape = tails.shape_of(float(np.mean(known))) if known else 0.0
    return Scenarios(scenarios.rates_msg_s, scenarios.weights, float(np.clip(shape, 0.0, _MAX_SHAPE)))


def _tail_ratio(scenarios: Scenarios, loads: FloatArray) -> float | None:
    place = scenarios.count - scenarios.tail_count - 1
    threshold = float(np.partition(loads, place)[place])
    above = loads > threshold
    if int(above.sum()) < tails.MIN_EXCESSES:
        return None
    mean, half = tails.l_moments(loads[above] - threshold, scenarios.weights[above])
    return half / mean if mean > 0 else None


def _coprime(count: int, least: int) -> int:
    """The first number from `least` on that has no factor in common with `count`."""
    while np.gcd(count, least) != 1:
        least += 1
    return least
