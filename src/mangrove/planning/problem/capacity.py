"""How many messages per second a broker can take (thesis §4.4.2, §4.5.6.1).

The mean processing time of a message is linear in what the broker does with it:
`T = t_rcv + n_fltr·t_fltr + r·t_tx`: receive it, match it against `n_fltr` filters, send `r` copies.
The broker is saturated at `1/T` received messages per second.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mangrove.errors import InputError
from mangrove.planning.problem.arrays import FloatArray


@dataclass(frozen=True, slots=True)
class BrokerModel:
    """Processing times of one broker, in seconds per message, filter and copy."""

    t_rcv_s: float
    t_fltr_s: float
    t_tx_s: float

    def __post_init__(self) -> None:
        for name in ("t_rcv_s", "t_fltr_s", "t_tx_s"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value >= 0):
                raise InputError(f"model.{name.removesuffix('_s')}: {value} is not a time of zero or more")
        if self.t_rcv_s + self.t_fltr_s + self.t_tx_s == 0:
            raise InputError("model: all processing times are zero, so the capacity would be infinite")

    def processing_time_s(self, filters: ArrayLike, replication: ArrayLike) -> FloatArray:
        """`T` for messages that meet `filters` filters and leave in `replication` copies."""
        return np.asarray(
            self.t_rcv_s + np.asarray(filters) * self.t_fltr_s + np.asarray(replication) * self.t_tx_s,
            dtype=np.float64,
        )

    def capacity_msg_s(self, filters: ArrayLike, replication: ArrayLike) -> FloatArray:
        """Received messages per second at saturation: `B = 1/T`."""
        return np.asarray(1.0 / self.processing_time_s(filters, replication), dtype=np.float64)

    def overall_throughput_msg_s(self, filters: ArrayLike, replication: ArrayLike) -> FloatArray:
        """Received plus sent messages per second at saturation: `B_a = (r + 1)/T`."""
        time_s = self.processing_time_s(filters, replication)
        return np.asarray((np.asarray(replication) + 1.0) / time_s, dtype=np.float64)


def rate_weighted_mean(rate_msg_s: ArrayLike, value: ArrayLike) -> float:
    """Mean of `value` over the messages of a set of items: `Σ V_i·x_i / Σ V_i` (thesis §4.5.6.1).

    The same rule gives the filters and the replication grade of an item from those of its topics.
    A set without traffic has no messages to average over; the plain mean stands in for it.
    """
    rates = np.asarray(rate_msg_s, dtype=np.float64)
    values = np.asarray(value, dtype=np.float64)
    if rates.shape != values.shape or rates.size == 0:
        raise InputError(f"rates {rates.shape} and values {values.shape} must be equally long and not empty")
    total = float(rates.sum())
    if total <= 0:
        return float(values.mean())
    return float(rates @ values / total)


def set_capacity_msg_s(
    model: BrokerModel, rate_msg_s: ArrayLike, filters: ArrayLike, replication: ArrayLike
) -> float:
    """Capacity of a broker that carries the items with these rates, filters and replication grades."""
    mean_filters = rate_weighted_mean(rate_msg_s, filters)
    mean_replication = rate_weighted_mean(rate_msg_s, replication)
    return float(model.capacity_msg_s(mean_filters, mean_replication))
