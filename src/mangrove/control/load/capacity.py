"""What brokers can carry, what they have left for others, and what an overloaded one must lose."""

from __future__ import annotations

import math

from mangrove.model.agents.load import Amounts, BrokerLoad, LoadState, Metric, Trigger
from mangrove.model.balancing import Balancing
from mangrove.model.federation import Edge

BYTES_A_MEGABIT = 125_000
MARGIN = 1e-6
"""Part of a capacity that is kept free of every target: a threshold that is reached is passed."""
TRIGGER_SHARE = 0.10
"""Part of its load that a broker sheds when a trigger says that it is too much, but not by how much."""
TRIGGER_METRICS = {
    Trigger.DELAY: Metric.MATCHING,
    Trigger.CPU: Metric.MATCHING,
    Trigger.PENDING: Metric.OUTPUT,
    Trigger.MEMORY: Metric.OUTPUT,
}
"""Which metric a trigger is relieved by."""


def capacity_of(broker: Edge) -> Amounts:
    """A broker's capacity as the federation file has it; infinite where it says nothing."""
    matching = math.inf if broker.capacity is None else broker.capacity
    if broker.bandwidth_mbps is None:
        return Amounts(math.inf, math.inf, matching)
    bandwidth = broker.bandwidth_mbps * BYTES_A_MEGABIT
    return Amounts(bandwidth, bandwidth, matching)


def load_of(load: BrokerLoad) -> Amounts:
    """A broker's load in the metrics' units."""
    return Amounts(load.bytes_in_s, load.bytes_out_s, load.messages_in_s)


def accepts(load: BrokerLoad) -> bool:
    """Whether a broker may be given load: it is LOW, it answered last time, and what can be measured was.

    Of one that has just not answered it is not known what it was given since.
    """
    measured = len(load.utilisation) == len(load.capacity) and not load.problem
    return load.state is LoadState.LOW and load.reachable and measured


def room_of(load: BrokerLoad, balancing: Balancing) -> Amounts:
    """What a broker may be given so that it stays below the ceiling; infinite where nothing is known."""
    ceiling = (balancing.low + balancing.high) / 2 if balancing.ceiling is None else balancing.ceiling
    return Amounts(*(_room(load, metric, ceiling) for metric in Metric))


def _room(load: BrokerLoad, metric: Metric, ceiling: float) -> float:
    capacity = load.capacity.get(metric)
    if capacity is None:
        return math.inf
    return (ceiling - MARGIN - load.utilisation.get(metric, 1.0)) * capacity


def need_of(load: BrokerLoad, balancing: Balancing) -> dict[Metric, float]:
    """How much an overloaded broker must lose, by metric, in the metric's unit, to be below the target."""
    target = balancing.low if balancing.target is None else balancing.target
    need = {
        metric: (load.utilisation[metric] - target + MARGIN) * load.capacity[metric]
        for metric in load.overloaded
    }
    for trigger in load.triggers:
        metric = TRIGGER_METRICS[trigger]
        need.setdefault(metric, TRIGGER_SHARE * load_of(load).of(metric))
    return need
