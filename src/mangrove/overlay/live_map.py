"""The network as it is now: failed links, measured delays, and the next hops that follow from them.

Next hops come from the failover tables, computed before any failure: a set of failed links is resolved to its
colour, and the table for that colour is in force at once. Nothing is recomputed when a link dies. The
measured delays serve explicit routes and predictions.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from mangrove.model.federation import Federation
from mangrove.routing.colours import Scope
from mangrove.routing.forwarding import Forwarding, TableForwarding
from mangrove.routing.graph import Graph, make_graph
from mangrove.routing.shortest import trees
from mangrove.routing.tables import FailoverTables, build_tables
from mangrove.routing.topology import graph_of_federation

Link = tuple[str, str]


class LiveMap:
    """One gateway's view of the whole network."""

    def __init__(self, federation: Federation, domain: str, tables: FailoverTables | None = None) -> None:
        self._domain = domain
        self._tables = tables or build_tables(graph_of_federation(federation))
        self._table = self._tables.broker(domain)
        self._graph = self._tables.book.graph
        self._index = self._tables.index(domain)
        names = self._graph.names
        self._links = [(min(names[u], names[v]), max(names[u], names[v])) for u, v in self._graph.ends]
        self._configured = dict(zip(self._links, map(float, self._graph.weights), strict=True))
        self._failed: frozenset[Link] = frozenset()
        self._delays: dict[Link, float] = {}
        self.colour = 1
        self.exact = True
        self.forwarding: Forwarding
        self._rest_ms: list[float] | None = None
        self._choose_tables()

    @property
    def version(self) -> str:
        """Names the tables; neighbours with other tables would forward differently."""
        return self._tables.version

    @property
    def names(self) -> tuple[str, ...]:
        """Domains in the order of their numbers."""
        return self._table.names

    @property
    def failed(self) -> frozenset[Link]:
        """The links that are down."""
        return self._failed

    @property
    def delays_ms(self) -> dict[Link, float]:
        """Measured one-way delays."""
        return self._delays

    def update(self, failed: frozenset[Link], delays_ms: dict[Link, float]) -> bool:
        """Take in the state of the network; True if next hops may have changed."""
        changed = failed != self._failed
        if changed:
            self._failed = failed
            self._choose_tables()
        if changed or delays_ms != self._delays:
            self._delays = dict(delays_ms)
            self._rest_ms = None
        return changed

    def _choose_tables(self) -> None:
        """Next hops for the failed links: prepared ones, or if the state has no colour, made now.

        A state without a colour (several links down that share no site) is served by shortest paths of what
        is left. All gateways with the same view make the same ones, so they do not loop either.
        """
        state = self._tables.book.resolve(links=self._failed)
        self.colour, self.exact = state.colour, state.exact
        if state.exact:
            self._in_force, self._in_force_colour = self._tables, state.colour
        else:
            remaining = self._without_failed({})
            self._in_force, self._in_force_colour = build_tables(remaining, Scope(False, False)), 1
        table = self._table if state.exact else self._in_force.broker(self._domain)
        hops = [table.next_hop(destination, self._in_force_colour) for destination in range(len(self.names))]
        self.forwarding = TableForwarding(hops, self.names)

    def table_ms(self, destination: str) -> float:
        """Delay of the way that forwarding by table takes, in measured milliseconds."""
        way = self._in_force.path(self._domain, destination, self._in_force_colour)
        if not way:
            return float("inf")
        links = [(min(pair), max(pair)) for pair in pairwise(way)]
        return sum(self._delays.get(link, self._configured[link]) for link in links)

    def live_graph(self) -> Graph:
        """The links that are up, with measured delays where there are any, else the configured cost."""
        return self._without_failed(self._delays)

    def _without_failed(self, delays: dict[Link, float]) -> Graph:
        graph = self._graph
        up = [position for position, link in enumerate(self._links) if link not in self._failed]
        weights = [max(delays.get(self._links[p], float(graph.weights[p])), 0.001) for p in up]
        return make_graph(
            graph.names, graph.points, graph.ends[up], plane=graph.plane, weights=np.array(weights)
        )

    def rest_ms(self, destinations: int) -> float:
        """How long the way to the farthest of some destinations takes; infinite if one is cut off."""
        if self._rest_ms is None:
            distance, _ = trees(self.live_graph(), [self._index])
            self._rest_ms = [float(value) for value in distance[0]]
        return max(
            (rest for position, rest in enumerate(self._rest_ms) if destinations >> position & 1), default=0.0
        )
