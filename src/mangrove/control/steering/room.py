"""Which edge of a linked domain takes a topic, by what it told of its room."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import msgspec

from mangrove.control.distribution import MIN_SHARE
from mangrove.control.steering.choice import RESERVE
from mangrove.model.agents.load import Amounts, Metric
from mangrove.model.agents.peers import EdgeRoom, Incoming


class Demand(msgspec.Struct, frozen=True):
    """What the subscribers of a topic take, as far as was measured since they registered."""

    clients: tuple[str, ...]
    stream: Amounts
    """What comes in once for all of them."""
    output: float
    """Bytes a second to all of them."""


def fit(demands: Mapping[str, Demand], rooms: Iterable[EdgeRoom]) -> dict[str, Incoming]:
    """An edge for each topic that has one, in the order of the topics' names.

    An edge that serves the topic already comes first, then the emptiest. What nobody has measured yet is
    taken to use a hundredth of an edge, so that silent topics do not fill it unseen, and a fifth of the
    capacity stays free.
    """
    known = [room for room in rooms if _possible(room) and _headroom(room) > RESERVE]
    left = {room.broker: _usable(room) for room in known}
    least = {room.broker: _least(room) for room in known}
    taken: dict[str, Incoming] = {}
    for topic, demand in sorted(demands.items()):
        ranked = sorted(known, key=lambda room: (topic not in room.topics, -_headroom(room), room.broker))
        for room in ranked:
            cost = _cost(demand, least[room.broker], served=topic in room.topics)
            if cost.fits(left[room.broker]):
                left[room.broker] = left[room.broker].minus(cost)
                taken[topic] = Incoming(
                    topic=topic,
                    broker=room.broker,
                    clients=demand.clients,
                    load={metric: cost.of(metric) for metric in Metric},
                )
                break
    return taken


def _cost(demand: Demand, least: Amounts, *, served: bool) -> Amounts:
    stream = Amounts() if served else demand.stream
    measured = Amounts(stream.input, demand.output, stream.matching)
    return Amounts(*(max(measured.of(metric), least.of(metric)) for metric in Metric))


def _usable(room: EdgeRoom) -> Amounts:
    """What may be used of a room so that the reserve stays free."""
    part = 1.0 - RESERVE / _headroom(room)
    return Amounts(*(part * room.remaining.get(metric, math.inf) for metric in Metric))


def _least(room: EdgeRoom) -> Amounts:
    """A hundredth of an edge's capacity, reckoned from what it has left."""
    return Amounts(*(MIN_SHARE * room.remaining.get(metric, 0.0) / _headroom(room) for metric in Metric))


def _headroom(room: EdgeRoom) -> float:
    return 1.0 if room.headroom is None else room.headroom


def _possible(room: EdgeRoom) -> bool:
    figures = [*room.remaining.values(), _headroom(room)]
    return all(map(math.isfinite, figures)) and min(figures) >= 0.0
