"""Forwarding: which neighbour brings a frame nearer to each of its destinations.

`Forwarding` is the interface that gateways use for every frame. `TableForwarding` implements it from a
broker's table of next hops under one colour; following failures means giving it another colour.
"""

from __future__ import annotations

from typing import Protocol

from mangrove.model.federation import Federation
from mangrove.routing.colours import Scope
from mangrove.routing.condensed import BrokerTable
from mangrove.routing.tables import build_tables
from mangrove.routing.topology import graph_of_federation

NO_FAILURE = 1
"""The colour of a network without a failure."""

_REMEMBERED_SPLITS = 4096

Hop = tuple[str, int]
"""A neighbour, and the mask of destinations that are reached through it."""


class Forwarding(Protocol):
    """Splits a set of destinations by next hop."""

    def split(self, destinations: int) -> tuple[Hop, ...]:
        """Next hops for a mask of destinations; destinations that cannot be reached are in none of them."""

    def reachable(self) -> int:
        """Mask of the destinations that can be reached."""


class TableForwarding:
    """Forwards by a table of next hops. Bit i of a mask stands for the i-th broker by name, as in the table.

    The tables are loop-free for all brokers that use the same colour (see `tables`).
    """

    def __init__(self, table: BrokerTable, colour: int = NO_FAILURE) -> None:
        via: dict[int, int] = {}
        for destination in range(len(table.names)):
            hop = table.next_hop(destination, colour)
            if hop >= 0:
                via[hop] = via.get(hop, 0) | 1 << destination
        self._via = [(table.names[neighbour], mask) for neighbour, mask in sorted(via.items())]
        self._splits: dict[int, tuple[Hop, ...]] = {}

    def split(self, destinations: int) -> tuple[Hop, ...]:
        """Next hops for a mask of destinations."""
        hops = self._splits.get(destinations)
        if hops is None:
            hops = tuple((name, destinations & mask) for name, mask in self._via if destinations & mask)
            if len(self._splits) < _REMEMBERED_SPLITS:
                self._splits[destinations] = hops
        return hops

    def reachable(self) -> int:
        """Mask of the destinations that can be reached."""
        return sum(mask for _, mask in self._via)


def shortest_forwarding(owner: str, federation: Federation) -> TableForwarding:
    """Forwarding along the shortest paths of a federation in which nothing fails."""
    tables = build_tables(graph_of_federation(federation), Scope(links=False, nodes=False))
    return TableForwarding(tables.broker(owner))
