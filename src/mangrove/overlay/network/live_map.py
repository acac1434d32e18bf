"""The network as it is now: failed links, measured delays, and the next hops that follow from them.

Next hops come from this gateway's own failover table, computed before any failure: a set of failed links is
resolved to its colour, and its next hops are in force at once. For a state without a colour, and for the ways
beyond the next hop, the tree of this gateway's ways is repaired; no other gateway's table is ever made. The
measured delays serve explicit routes and predictions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mangrove.model.federation import Federation
from mangrove.model.site_pair import SitePair, site_pair
from mangrove.model.status import TableFigures
from mangrove.overlay.network.endangered_regions import EndangeredRegions
from mangrove.overlay.network.link_state import LinkMeasurements
from mangrove.overlay.network.way_ahead import WayAhead
from mangrove.overlay.protocol.control_messages import SiteReport
from mangrove.routing.failover.forwarding import Forwarding
from mangrove.routing.failover.gateway_tables import GatewayTables, prepared_network
from mangrove.routing.failover.ways import Ways
from mangrove.routing.network.graph import Graph, make_graph
from mangrove.routing.paths.disjoint_pair import disjoint_pair
from mangrove.routing.paths.shortest import load_search, trees, walk

MAX_KEPT = 4096
"""Destination sets whose distance is kept until the network changes."""


_NOWHERE = SiteReport()


class _Rest(NamedTuple):
    """How far it is from here to every domain, and which one comes before it on the way."""

    distance_ms: list[float]
    before: NDArray[np.int32]


class LiveMap:
    """One gateway's view of the whole network."""

    def __init__(self, federation: Federation, domain: str, tables: GatewayTables | None = None) -> None:
        self._federation = federation
        self._domain = domain
        self._failed: frozenset[SitePair] = frozenset()
        self._measured = LinkMeasurements()
        self._waiting: frozenset[int] = frozenset()
        """Topic classes whose frames wait for some link."""
        self.dangers = EndangeredRegions(domain, federation)
        """Parts of the network that contracts avoid if they can, although they work."""
        self._take(tables or GatewayTables(prepared_network(federation), domain))

    def _take(self, tables: GatewayTables) -> None:
        self._tables = tables
        self._graph = self._tables.book.graph
        self._index = self._tables.index
        load_search(self._graph.size)
        self._ways: Ways | None = None
        """The ways that the next hops in force lead along; made when somebody asks."""
        names = self._graph.names
        self._links = [site_pair(names[u], names[v]) for u, v in self._graph.ends]
        self._configured = dict(zip(self._links, map(float, self._graph.weights), strict=True))
        self._gone: frozenset[SitePair] = frozenset()
        """Links of these tables that are no part of the federation any more."""
        self._out = self._failed.intersection(self._configured)
        """What of these tables is out of use: failed, or gone."""
        self._left: tuple[Graph, list[SitePair]] | None = None
        self._two_ways: dict[str, bool] = {}
        """By destination; it follows from the configured links alone."""
        self.colour = 1
        self.exact = True
        self.forwarding: Forwarding
        self._rest: dict[int | None, _Rest] = {}
        self._farthest_ms: dict[tuple[int, int], float] = {}
        self._ways_ahead: dict[tuple[int, int], WayAhead | None] = {}
        self._choose_tables()

    def adopt(self, federation: Federation) -> None:
        """Other domains and links are agreed on. What of the tables is left serves until there are others.

        Links that are gone are as failed ones, for which the tables are prepared; what is new is not known.
        """
        self._federation = federation
        self.dangers.adopt(federation)
        self._gone = frozenset(self._links).difference(link.pair for link in federation.links)
        self._refresh()

    def take_tables(self, tables: GatewayTables) -> None:
        """The tables for the domains and links that are agreed on."""
        self._take(tables)
        self._gone = frozenset(self._links).difference(link.pair for link in self._federation.links)
        self._refresh()

    def _refresh(self) -> None:
        self._out = self._failed.intersection(self._configured) | self._gone
        self._left = None
        self._choose_tables()
        self._rest.clear()
        self._farthest_ms.clear()
        self._ways_ahead.clear()

    def leads(self, path: Sequence[str]) -> bool:
        """Whether all links of a path are in the tables and work."""
        hops = [site_pair(*hop) for hop in pairwise(path)]
        return all(hop in self._configured and hop not in self._out for hop in hops)

    def knows(self, domain: str) -> bool:
        """Whether a domain is in the tables."""
        return domain in self._graph.names

    @property
    def origins(self) -> tuple[Federation, str, frozenset[SitePair], LinkMeasurements, EndangeredRegions]:
        """All that the map follows from; `restored_map` makes the same one of it."""
        return self._federation, self._domain, self._failed, self._measured, self.dangers

    def has_two_ways(self, destination: str) -> bool:
        """Whether two paths that share no link and no site lead there, while every link is up."""
        found = self._two_ways.get(destination) if self.knows(destination) else False
        if found is None:
            ends = self._graph.index(self._domain), self._graph.index(destination)
            found = self._two_ways[destination] = disjoint_pair(self._graph, *ends) is not None
        return found

    @property
    def names(self) -> tuple[str, ...]:
        """Domains in the order of their numbers."""
        return self._tables.names

    @property
    def failed(self) -> frozenset[SitePair]:
        """The links that are down."""
        return self._failed

    @property
    def measured(self) -> LinkMeasurements:
        """What the ends of the links have measured."""
        return self._measured

    def table_path(self, destination: str) -> tuple[str, ...]:
        """The way that forwarding by table takes; empty if there is none."""
        if not self.knows(destination):
            return ()
        if self._ways is None:
            self._ways = self._tables.ways(self._out)
        return self._graph.named(self._ways.to(self._graph.index(destination)))

    def update(self, failed: frozenset[SitePair], measured: LinkMeasurements) -> tuple[bool, bool]:
        """Take in the state of the network; whether next hops may have changed, and whether delays have."""
        changed = failed != self._failed
        if changed:
            self._failed = failed
            self._out = failed.intersection(self._configured) | self._gone
            self._left = None
            self._choose_tables()
        slower = not measured.same_delays(self._measured)
        self._measured = measured
        if changed or slower:
            self._rest.clear()
            self._farthest_ms.clear()
            self._ways_ahead.clear()
            self._waiting = frozenset(
                topic_class for waits in measured.waits_ms.values() for topic_class in waits
            )
        return changed, slower

    def _choose_tables(self) -> None:
        """Next hops for the failed links: prepared ones, or if the state has no colour, made now.

        A state without a colour (several links down that share no site) is served by shortest paths of what
        is left. All gateways with the same view make the same ones, so they do not loop either.
        """
        state = self._tables.resolve(self._out)
        self.colour, self.exact = state.colour, state.exact
        self._ways = None if state.exact else self._tables.ways(self._out)
        hops = self._tables.table.hops(state.colour) if self._ways is None else self._ways.hops
        self.forwarding = Forwarding(hops, self.names)

    @property
    def risk_group(self) -> str:
        """The risk group whose failure the present state is; empty if it is none's."""
        return self._tables.book.colour(self.colour).group if self.exact else ""

    def table_figures(self) -> TableFigures:
        """How much is prepared."""
        table = self._tables.table
        return TableFigures(
            states=len(table.columns), entries=len(table.next_hops), size_bytes=table.size_bytes
        )

    def has_bypass(self, peer: str) -> bool:
        """Whether a neighbour can be reached without the link to it when nothing else has failed."""
        link = site_pair(self._domain, peer)
        return link not in self._configured or bool(self._tables.path(peer, frozenset({link})))

    def table_ms(self, destination: str, topic_class: int) -> float:
        """Delay of the way that forwarding by table takes, as measured for a topic class."""
        way = self.table_path(destination)
        return self.path_ms(way, topic_class) if way else float("inf")

    def inside_ms(self, source: str, destination: str) -> tuple[float, float]:
        """How long messages are inside the source, until its gateway has them, and inside the destination."""
        sites = self._measured.sites
        return sites.get(source, _NOWHERE).ingress_ms, sites.get(destination, _NOWHERE).egress_ms

    @property
    def own_egress_ms(self) -> float:
        """How long messages are inside this domain before its subscribers have them."""
        return self.inside_ms(self._domain, self._domain)[1]

    def path_ms(self, path: Sequence[str], topic_class: int) -> float:
        """Measured delay of a path from publisher to subscriber: inside its ends, on its links, and what
        frames of the class wait for them. What passes a site does not go through its brokers."""
        inside_ms = sum(self.inside_ms(path[0], path[-1]))
        return inside_ms + sum(self.hop_ms(hop, topic_class) for hop in pairwise(path))

    def hop_ms(self, hop: tuple[str, str], topic_class: int) -> float:
        """Measured delay of one link, and what frames of the class wait for it; infinite if it is down."""
        link = site_pair(*hop)
        if link in self._out or link not in self._configured:
            return float("inf")
        wait = self._measured.waits_ms.get(hop, {}).get(topic_class, 0.0)
        return self._measured.delays_ms.get(link, self._configured[link]) + wait

    def live_graph(self, topic_class: int | None = None) -> Graph:
        """The links that are up, with measured delays where there are any, else the configured cost.

        What frames of a topic class wait for a link is added for the direction that leads away from here.
        """
        delays = self._measured.delays_ms
        if topic_class is not None and topic_class in self._waiting:
            delays = {link: self._with_wait(link, topic_class) for link in self._links}
        return self._without_failed(delays)

    def _with_wait(self, link: SitePair, topic_class: int) -> float:
        near, far = sorted(link, key=lambda end: self._rest_of(None).distance_ms[self._graph.index(end)])
        wait = self._measured.waits_ms.get((near, far), {}).get(topic_class, 0.0)
        return self._measured.delays_ms.get(link, self._configured[link]) + wait

    def _without_failed(self, delays: dict[SitePair, float]) -> Graph:
        left, links = self._left or self._make_left()
        weights = [
            max(delays.get(link, weight), 0.001)
            for link, weight in zip(links, left.link_weights, strict=True)
        ]
        return left.with_values(weights=np.array(weights))

    def _make_left(self) -> tuple[Graph, list[SitePair]]:
        """The links that are up as they are configured; kept while no other ones fail or recover."""
        graph = self._graph
        up = [position for position, link in enumerate(self._links) if link not in self._out]
        left = make_graph(
            graph.names,
            graph.points,
            graph.ends[up],
            plane=graph.plane,
            weights=graph.weights[up],
            via=[graph.via[p] for p in up],
        )
        self._left = left, [self._links[p] for p in up]
        return self._left

    def _rest_of(self, topic_class: int | None) -> _Rest:
        if topic_class not in self._waiting:
            topic_class = None
        if topic_class not in self._rest:
            distance, before = trees(self.live_graph(topic_class), [self._index])
            self._rest[topic_class] = _Rest([float(value) for value in distance[0]], before[0])
        return self._rest[topic_class]

    @property
    def farthest_s(self) -> float:
        """How long the way to the farthest domain takes that can be reached."""
        return max(each for each in self._rest_of(None).distance_ms if math.isfinite(each)) / 1000

    def rest_ms(self, destinations: int, topic_class: int) -> float:
        """How long the way to the farthest of some destinations takes; infinite if one is cut off."""
        key = (destinations, topic_class)
        farthest = self._farthest_ms.get(key)
        if farthest is None:
            if len(self._farthest_ms) >= MAX_KEPT:
                self._farthest_ms.clear()
            rest = self._rest_of(topic_class).distance_ms
            farthest = max(
                (each for place, each in enumerate(rest) if destinations >> place & 1), default=0.0
            )
            if destinations >> len(rest):
                farthest = float("inf")
            self._farthest_ms[key] = farthest
        return farthest

    def way_ahead(self, destinations: int, topic_class: int) -> WayAhead | None:
        """What the way to the farthest of some destinations takes, hop by hop; None if one is cut off."""
        key = (destinations, topic_class)
        if key not in self._ways_ahead:
            if len(self._ways_ahead) >= MAX_KEPT:
                self._ways_ahead.clear()
            places = [place for place in range(len(self.names)) if destinations >> place & 1]
            ways = [self._way_to(place, topic_class) for place in places if place != self._index]
            known = [way for way in ways if way is not None]
            complete = len(known) == len(ways) > 0 and not destinations >> len(self.names)
            self._ways_ahead[key] = max(known, key=lambda way: way.rest_ms) if complete else None
        return self._ways_ahead[key]

    def _way_to(self, place: int, topic_class: int) -> WayAhead | None:
        nodes = walk(self._rest_of(topic_class).before, self._index, place)
        hops = list(pairwise(self._graph.named(nodes)))
        if not hops:
            return None
        measured = self._measured
        links = [site_pair(*hop) for hop in hops]
        return WayAhead(
            sum(measured.delays_ms.get(link, self._configured[link]) for link in links)
            + self.inside_ms(self._domain, self.names[place])[1],
            tuple(measured.waits_ms.get(hop, {}).get(topic_class, 0.0) for hop in hops),
        )


def restored_map(
    federation: Federation,
    domain: str,
    failed: frozenset[SitePair],
    measured: LinkMeasurements,
    dangers: EndangeredRegions,
) -> LiveMap:
    """The map that follows from a state of the network."""
    made = LiveMap(federation, domain)
    made.dangers = dangers
    made.update(failed, measured)
    return made
