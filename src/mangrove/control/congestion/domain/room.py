"""What others could take of a broker's load at most, as far as is known without asking."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from mangrove.control.load.capacity import accepts, room_of
from mangrove.model.agents.load import Amounts, BrokerLoad, ClusterLoad, LoadState, Metric
from mangrove.model.balancing import Balancing

HEAD = "head"


def room_elsewhere(
    load: BrokerLoad,
    loads: Iterable[BrokerLoad],
    neighbours: Iterable[ClusterLoad],
    balancing: Balancing,
) -> Amounts:
    """The room of brokers of the same kind, here and in linked domains that take load from this one.

    Brokers of the session in which a broker takes part count as well: what they were sent is on its way.
    """
    if not balancing.enabled:
        return Amounts()
    room = Amounts()
    for other in loads:
        helps = accepts(other) or (bool(other.session) and other.session == load.session and other.reachable)
        if helps and other.role == load.role and other.broker != load.broker:
            room = room.plus(_positive(room_of(other, balancing)))
    for cluster in neighbours:
        state, left = (
            (cluster.head, cluster.head_remaining)
            if load.role == HEAD
            else (cluster.edges, cluster.edges_remaining)
        )
        if state is LoadState.LOW:
            room = room.plus(_told(left))
    return room


def _positive(room: Amounts) -> Amounts:
    return Amounts(*(max(0.0, amount) for amount in room))


def _told(remaining: Mapping[Metric, float]) -> Amounts:
    return Amounts(*(max(0.0, remaining.get(metric, math.inf)) for metric in Metric))
