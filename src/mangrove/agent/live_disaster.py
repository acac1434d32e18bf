"""What a disaster would do to a running federation, from what its gateways say of themselves now."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec
import numpy as np

from mangrove.model.federation import Federation
from mangrove.model.site_pair import SitePair, site_pair
from mangrove.model.status import GatewayStatus, WayStatus
from mangrove.routing.network.geography import Floats
from mangrove.routing.network.graph import Graph, NodePath, NoPathError
from mangrove.routing.network.regions import Damage, Region, damage
from mangrove.routing.network.topology import graph_of_federation
from mangrove.routing.paths.disaster import DisasterReport, Fate, PairFate
from mangrove.routing.paths.shortest import shortest_path


class Outcome(StrEnum):
    """What becomes of a topic's way from one domain to another."""

    UNTOUCHED = "untouched"
    SURVIVES = "survives"  # some of its paths fail, others carry on
    MOVES = "moves"  # all of its paths fail, and another way exists
    CUT_OFF = "cut off"  # all of its paths fail, and no other way exists
    STRUCK = "struck"  # its source or its destination is inside the region


class TopicFate(msgspec.Struct, frozen=True, kw_only=True):
    """One topic between two domains: the paths that it would lose, and what would remain."""

    topic: str
    source: str
    destination: str
    outcome: Outcome
    lost: tuple[tuple[str, ...], ...]
    remaining: tuple[tuple[str, ...], ...]
    """The paths that carry on, or the way around if there is one."""
    delay_ms: float | None
    """Of the fastest of what remains, as links are measured now."""
    deadline_ms: float | None
    late: bool
    """Whether what remains misses the deadline."""


class LiveDisaster(msgspec.Struct, frozen=True):
    """The effect of a region on all that is carried now."""

    graph: Graph
    """The links that are up, with the delays that are measured."""
    region: Region
    damage: Damage
    fates: tuple[TopicFate, ...]
    silent: tuple[str, ...]
    """Domains whose gateway does not answer: what they send is not known."""

    def having(self, *outcomes: Outcome) -> list[TopicFate]:
        """The topics with one of these outcomes."""
        return [fate for fate in self.fates if fate.outcome in outcomes]

    def report(self) -> DisasterReport:
        """The same by pairs of domains, as maps draw it."""
        words = {
            Outcome.SURVIVES: Fate.SAVED,
            Outcome.MOVES: Fate.SAVED,
            Outcome.CUT_OFF: Fate.CUT_OFF,
            Outcome.STRUCK: Fate.STRUCK,
        }
        fates = [
            PairFate(
                (self.graph.index(fate.source), self.graph.index(fate.destination)),
                words[fate.outcome],
                tuple(self.graph.indices(path) for path in (*fate.lost, *fate.remaining)),
            )
            for fate in self.fates
            if fate.outcome is not Outcome.UNTOUCHED
        ]
        return DisasterReport(self.region, self.damage, len(self.fates), tuple(fates))


def live_disaster(
    federation: Federation,
    gateways: Mapping[str, GatewayStatus | None],
    region: Region,
    *,
    cut_links: bool = False,
) -> LiveDisaster:
    """Which topics would lose which paths, and what would remain."""
    answered = {name: status for name, status in gateways.items() if status is not None}
    graph = _live_graph(federation, list(answered.values()))
    hit = damage(graph, region, cut_links=cut_links)
    rules = {contract.match: contract for contract in federation.topics.contracts}
    fates = []
    for source, status in answered.items():
        for way in status.ways:
            deadline_ms = rules[way.topic].deadline_ms if way.topic in rules else None
            fates.append(_fate(graph, hit, source, way, deadline_ms))
    return LiveDisaster(
        graph, region, hit, tuple(fates), tuple(name for name in gateways if name not in answered)
    )


def _live_graph(federation: Federation, statuses: Sequence[GatewayStatus]) -> Graph:
    """The links that nobody says are down, with the worse of both ends' delays."""
    failed = {site_pair(*link) for status in statuses for link in status.failed_links}
    delays_ms: dict[SitePair, float] = {}
    for status in statuses:
        for link in status.links:
            if link.rtt_ms is not None:
                pair = site_pair(status.domain, link.peer)
                delays_ms[pair] = max(delays_ms.get(pair, 0.0), link.rtt_ms / 2)
    graph = graph_of_federation(federation)
    pairs = [site_pair(graph.names[u], graph.names[v]) for u, v in graph.ends]
    up = [place for place, pair in enumerate(pairs) if pair not in failed]
    weights = [max(delays_ms.get(pairs[place], float(graph.weights[place])), 0.001) for place in up]
    return _with_links(graph, up, np.array(weights))


def _with_links(graph: Graph, kept: Sequence[int], weights: Floats) -> Graph:
    return msgspec.structs.replace(
        graph,
        ends=graph.ends[list(kept)],
        weights=weights,
        edge_failure=graph.edge_failure[list(kept)],
        via=tuple(graph.via[link] for link in kept),
    )


def _fate(graph: Graph, hit: Damage, source: str, way: WayStatus, deadline_ms: float | None) -> TopicFate:
    ends = graph.index(source), graph.index(way.destination)
    paths = [path for path in way.paths if _stands(graph, path)]
    lost = [path for path in paths if hit.breaks(graph, graph.indices(path))]
    remaining = [path for path in paths if path not in lost]
    if hit.nodes[list(ends)].any():
        outcome, remaining = Outcome.STRUCK, []
    elif not lost:
        outcome = Outcome.UNTOUCHED if paths else Outcome.CUT_OFF
    elif remaining:
        outcome = Outcome.SURVIVES
    else:
        around = _around(graph, hit, ends)
        outcome = Outcome.MOVES if around else Outcome.CUT_OFF
        remaining = [graph.named(around)] if around else []
    delays = [graph.length(graph.indices(path)) for path in remaining]
    delay_ms = min(delays, default=math.inf)
    late = bool(remaining) and deadline_ms is not None and delay_ms > deadline_ms
    return TopicFate(
        topic=way.topic,
        source=source,
        destination=way.destination,
        outcome=outcome,
        lost=tuple(lost),
        remaining=tuple(remaining),
        delay_ms=round(delay_ms, 3) if remaining else None,
        deadline_ms=deadline_ms,
        late=late,
    )


def _stands(graph: Graph, path: Sequence[str]) -> bool:
    """Whether all links of a path are up; a path may be told by a gateway that has not heard yet."""
    return len(path) > 1 and graph.leads(path)


def _around(graph: Graph, hit: Damage, ends: tuple[int, int]) -> NodePath:
    weights = hit.surviving_weights(graph)
    kept = np.flatnonzero(np.isfinite(weights))
    try:
        return shortest_path(_with_links(graph, [int(link) for link in kept], weights[kept]), *ends)
    except NoPathError:
        return ()
