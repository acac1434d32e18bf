"""What dealing topics to items costs: the risk of plans of items against what no plan can better.

Figures of items are exact; what is lost is that the members of a group go together. So plans are made of all
items, of half as many, and of a quarter, by the same simple rule, and compared with a load that is split
evenly down to the last message, at the capacity at which that is overloaded with a probability of 1 %. Where
fewer items hardly raise the risk, more would hardly lower it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from statistics import NormalDist

import numpy as np

from mangrove.pipelines.grouping.dealt_items import dealt
from mangrove.planning.problem.arrays import FloatArray, IntArray

EVEN_RISK = 0.01
PARTS = (1, 2, 4)


@dataclass(frozen=True, slots=True)
class RiskError:
    """Mean probability of overload of a broker, for plans of so many items."""

    brokers: int
    even: float
    """Of a load that is split evenly: what no plan can better."""
    by_items: dict[str, float]
    """Of plans of all items, of half as many, of a quarter."""

    def document(self) -> dict[str, object]:
        """As plain data."""
        return asdict(self)


def risk_error(mean: FloatArray, covariance: FloatArray, brokers: int) -> RiskError | None:
    """The error for so many equal brokers; None where there is nothing to plan."""
    spread = float(np.sqrt(max(float(covariance.sum()), 0.0)))
    if brokers < 2 or len(mean) < 2 * brokers or not spread:
        return None
    normal = NormalDist()
    capacity = (float(mean.sum()) + normal.inv_cdf(1.0 - EVEN_RISK) * spread) / brokers
    found: dict[str, float] = {}
    for part in PARTS:
        if len(mean) // part < 2 * brokers:
            break
        item_of = dealt(mean, len(mean) // part) if part > 1 else np.arange(len(mean))
        count = int(item_of.max()) + 1
        group_mean = np.asarray(np.bincount(item_of, weights=mean, minlength=count), dtype=np.float64)
        broker_of = _filled(group_mean, brokers)[item_of]
        found[str(count)] = _mean_risk(mean, covariance, broker_of, brokers, capacity)
    return RiskError(brokers, EVEN_RISK, found)


def _filled(mean: FloatArray, brokers: int) -> IntArray:
    """The heaviest first, each to the broker that has least."""
    load = np.zeros(brokers)
    broker_of = np.empty(len(mean), dtype=np.int64)
    for item in np.argsort(-mean, kind="stable"):
        broker = int(np.argmin(load))
        broker_of[item] = broker
        load[broker] += mean[item]
    return broker_of


def _mean_risk(
    mean: FloatArray, covariance: FloatArray, broker_of: IntArray, brokers: int, capacity: float
) -> float:
    normal = NormalDist()
    risks = []
    for broker in range(brokers):
        own = np.flatnonzero(broker_of == broker)
        load = float(mean[own].sum())
        variance = float(covariance[np.ix_(own, own)].sum())
        if variance <= 0:
            risks.append(float(load > capacity))
        else:
            risks.append(1.0 - normal.cdf((capacity - load) / variance**0.5))
    return float(np.mean(risks))
