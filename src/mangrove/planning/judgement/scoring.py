"""Worth and violation of a broker's set of items, from its sums, for many sets at once.

Every solver judges sets through this module. All quantities but the variance are sums over the items, so a
move changes them by one term; `features` lists the terms that the problem at hand needs, one row each.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from mangrove.planning.empirical.scenarios import Overload
from mangrove.planning.judgement import risk
from mangrove.planning.problem.arrays import FloatArray, IntArray
from mangrove.planning.problem.problem import Objective, Problem

# A bound is kept when it is exceeded by no more than rounding.
TOLERANCE = 1e-9
MIN_MARGIN = -1e7


class Feature(IntEnum):
    """Rows of the linear sums."""

    MEAN = 0
    COUNT = 1
    WORK = 2
    """rate × processing time: the share of the broker's time that the item takes."""
    PENALTY = 3
    VOLUME = 4
    COPIES = 5
    """rate × replication grade."""


class Scorer:
    """Scores sets of items of one problem; higher is better, and scores of brokers add up.

    Scores leave out the rewards, which are the same for every allocation.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        brokers, items = problem.broker_count, problem.item_count
        mean = problem.mean_rate_msg_s
        shape = (brokers, items)
        ones = np.ones(items)
        work = np.zeros(shape) if problem.service_time_s is None else problem.service_time_s * mean
        rows = {
            Feature.MEAN: np.broadcast_to(mean, shape),
            Feature.COUNT: np.broadcast_to(ones, shape),
            Feature.WORK: work,
            Feature.PENALTY: np.broadcast_to(problem.penalty, shape),
            Feature.VOLUME: np.broadcast_to(problem.volume, shape),
            Feature.COPIES: np.broadcast_to(problem.replication * mean, shape),
        }
        # Rows nobody asks for are not carried along: `row[f]` is where feature f is, if it is.
        bounds = problem.constraints
        wanted = [Feature.MEAN]
        if np.isfinite(bounds.max_items).any():
            wanted.append(Feature.COUNT)
        if problem.service_time_s is not None:
            wanted.append(Feature.WORK)
        if problem.objective is Objective.CONSTANT_PENALTY:
            wanted.append(Feature.PENALTY)
        if np.isfinite(bounds.max_volume).any():
            wanted.append(Feature.VOLUME)
        if np.isfinite(bounds.max_replication):
            wanted.append(Feature.COPIES)
        self.row = {feature: index for index, feature in enumerate(wanted)}
        self.features: FloatArray = np.stack([rows[feature] for feature in wanted])
        self.constrained = bounds.bind_brokers
        self._risk_bound = bool((bounds.max_risk < 1).any())
        self._log_max_risk = np.log(bounds.max_risk)
        self._threshold = problem.utilisation_threshold
        self._no_traffic = 1e-12 * float(mean.sum())
        if problem.service_time_s is not None:
            # Capacity of a set without traffic: the least any of its items would leave.
            self._idle_capacity = 1.0 / problem.service_time_s.max(axis=1)
            self._no_work = 1e-12 * float(work.sum(axis=1).max(initial=0.0))

    def capacity(self, broker: IntArray | int, sums: FloatArray) -> FloatArray:
        """Message rate at which the broker is saturated by sets with these sums."""
        fixed = self.problem.capacity_msg_s
        if fixed is not None:
            return np.asarray(fixed[broker], dtype=np.float64)
        mean, work = sums[0], sums[self.row[Feature.WORK]]
        busy = work > self._no_work
        return np.asarray(
            np.where(busy, mean / np.where(busy, work, 1.0), self._idle_capacity[broker]), dtype=np.float64
        )

    def margin(self, broker: IntArray | int, sums: FloatArray, variance: FloatArray) -> FloatArray:
        """`z` of the sets against the capacity times the utilisation threshold, never −∞.

        Differences of scores must stay numbers even where a rate without variance exceeds its capacity.
        """
        z = risk.margin(self._threshold * self.capacity(broker, sums), sums[0], variance)
        return np.maximum(z, MIN_MARGIN)

    def score(
        self, broker: IntArray | int, sums: FloatArray, variance: FloatArray, weight: float = 0.0
    ) -> FloatArray:
        """Worth of the sets, minus `weight` times their violation."""
        z = self.margin(broker, sums, variance)
        excess = None
        if self.problem.objective is Objective.EXCESS_PENALTY:
            slack = self._threshold * self.capacity(broker, sums) - sums[0]
            excess = risk.expected_excess(z, slack, variance)
        return self._score_at(broker, sums, z, excess, weight)

    def observed(self, broker: IntArray | int, sums: FloatArray, loads: FloatArray) -> Overload:
        """The sets in the problem's scenarios, against the capacity times the utilisation threshold."""
        assert self.problem.scenarios is not None
        return self.problem.scenarios.overload(loads, self._threshold * self.capacity(broker, sums))

    def observed_score(
        self, broker: IntArray | int, sums: FloatArray, overload: Overload, weight: float = 0.0
    ) -> FloatArray:
        """As `score`, with the risk that was observed."""
        excess = None
        if self.problem.objective is Objective.EXCESS_PENALTY:
            excess = overload.expected_excess_msg_s
        return self._score_at(broker, sums, np.maximum(overload.margin, MIN_MARGIN), excess, weight)

    def observed_violation(self, broker: IntArray | int, sums: FloatArray, overload: Overload) -> FloatArray:
        """As `violation`, with the risk that was observed."""
        return self._violation(broker, sums, np.maximum(overload.margin, MIN_MARGIN))

    def _score_at(
        self,
        broker: IntArray | int,
        sums: FloatArray,
        z: FloatArray,
        excess: FloatArray | None,
        weight: float,
    ) -> FloatArray:
        """Worth of sets with this margin and expected excess, minus `weight` times their violation."""
        problem = self.problem
        if excess is not None:
            worth = -problem.penalty_per_message * excess
        elif problem.objective is Objective.CONSTANT_PENALTY:
            worth = -risk.constant_penalty(z, sums[self.row[Feature.PENALTY]])
        else:
            worth = risk.log_ok(z)
        if self.constrained and weight:
            worth = worth - weight * self._violation(broker, sums, z)
        return worth

    def log_risk(self, broker: IntArray | int, sums: FloatArray, variance: FloatArray) -> FloatArray:
        """Logarithm of the risk of the sets, not clipped: it still differs where the worth no longer does."""
        return risk.log_risk(self.margin(broker, sums, variance))

    def utilisation(self, broker: IntArray | int, sums: FloatArray) -> FloatArray:
        """Share of the broker's capacity that the mean rate of the sets takes."""
        return np.asarray(sums[0] / self.capacity(broker, sums), dtype=np.float64)

    def violation(self, broker: IntArray | int, sums: FloatArray, variance: FloatArray) -> FloatArray:
        """How far the sets are from keeping every bound; 0 when they do.

        Each term is relative to its bound (in the logarithm for the risk), so that terms can be added.
        """
        return self._violation(broker, sums, self.margin(broker, sums, variance))

    def _violation(self, broker: IntArray | int, sums: FloatArray, z: FloatArray) -> FloatArray:
        total = self.other_violation(broker, sums)
        if self._risk_bound:
            total = total + _excess(risk.log_risk(z) - self._log_max_risk[broker])
        return total

    def other_violation(self, broker: IntArray | int, sums: FloatArray) -> FloatArray:
        """The part of the violation that is not about risk, and so needs no variance."""
        bounds = self.problem.constraints
        total = np.zeros(np.shape(sums)[1:])
        if Feature.COUNT in self.row:
            total = total + _excess(sums[self.row[Feature.COUNT]] - bounds.max_items[broker])
        if Feature.VOLUME in self.row:
            total = total + _excess(sums[self.row[Feature.VOLUME]] / bounds.max_volume[broker] - 1.0)
        # What rounding leaves of a broker whose items have all left is no traffic to average over.
        mean = np.where(sums[0] > self._no_traffic, sums[0], np.inf)
        if Feature.WORK in self.row and np.isfinite(bounds.max_delay_s):
            total = total + _excess(sums[self.row[Feature.WORK]] / mean / bounds.max_delay_s - 1.0)
        if Feature.COPIES in self.row:
            total = total + _excess(sums[self.row[Feature.COPIES]] / mean / bounds.max_replication - 1.0)
        return total


def _excess(amount: FloatArray) -> FloatArray:
    return np.where(amount > TOLERANCE, amount, 0.0)
