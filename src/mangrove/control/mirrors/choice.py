"""Chooses the mirror of a topic among the brokers of its domain."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType

import msgspec

from mangrove.control.load.cluster import UNKNOWN_HEADROOM, ranking_headroom
from mangrove.control.site import Site
from mangrove.model.agents.load import BrokerLoad

Loads = Callable[[float], Mapping[str, BrokerLoad]]


class Places(msgspec.Struct, frozen=True):
    """Where a topic is without its mirror."""

    edges: tuple[str, ...]
    """Who serves its subscribers, the one for new subscribers first: the primary."""
    published_at: str


class MirrorChoice:
    """The rules, in this order.

    Never: the primary, where the topic is published, what is away, and the host of the primary while brokers
    on several hosts live. The head only if no edge is left.
    Then rather not: another broker that serves subscribers of the topic, and the host where it is published.
    Then the one that is planned, then the present one, then one that overlapping topics have already, then
    the one with most room, and of about equals the one that has fewest.
    """

    def __init__(self, site: Site, loads: Loads) -> None:
        self._site = site
        self._loads = loads

    def choose(
        self,
        places: Places,
        now: float,
        *,
        planned: str = "",
        present: str = "",
        shared: Collection[str] = (),
        mirrored: Mapping[str, int] = MappingProxyType({}),
        away: Collection[str] = (),
    ) -> str:
        """The mirror; empty if there is no second broker that would do.

        `shared` are the mirrors of overlapping topics, `mirrored` tells how many topics each broker has.
        """
        site = self._site
        primary = places.edges[0] if places.edges else ""
        living = [broker for broker in site.brokers if broker not in away]
        several = len({site.machine(broker) for broker in living}) > 1
        possible = [
            broker
            for broker in living
            if broker not in (primary, places.published_at)
            and not (several and primary and site.machine(broker) == site.machine(primary))
        ]
        edges = [broker for broker in possible if broker != site.head]
        candidates = edges or possible
        if not candidates:
            return ""
        loads = self._loads(now)
        published_on = site.machine(places.published_at)

        def order(broker: str) -> tuple[bool, bool, bool, bool, bool, float, int, str]:
            load = loads.get(broker)
            room = UNKNOWN_HEADROOM if load is None else ranking_headroom(load)
            return (
                broker in places.edges,
                several and site.machine(broker) == published_on,
                broker != planned,
                broker != present,
                broker not in shared,
                -round(room, 1),
                mirrored.get(broker, 0),
                broker,
            )

        return min(candidates, key=order)
