"""Paths from here to one destination, as they look now to one topic class: how fast, how safe, how far apart.

Everything is judged on the live map with the estimated probabilities of failure, on the condition that both
ends are up: while one is down there is nobody to send or to receive.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise

import msgspec
from msgspec import structs

from mangrove.model.federation import Region
from mangrove.model.site_pair import site_pair
from mangrove.model.status import Requirement
from mangrove.model.topics import Contract
from mangrove.overlay.network.link_loads import NO_LOADS, LinkLoads
from mangrove.overlay.network.live_map import LiveMap
from mangrove.routing.network.graph import Graph, NodePath
from mangrove.routing.network.proximity import separation
from mangrove.routing.network.region_distance import distance_from_region, inner_distance_from_region
from mangrove.routing.network.regions import Region as Area
from mangrove.routing.paths.disjoint_pair import disjoint_pair
from mangrove.routing.paths.path_limits import PathLimits
from mangrove.routing.paths.resilience import resiliency
from mangrove.routing.paths.shortest import trees

SitePath = tuple[str, ...]
"""The sites of a path, from its source to its destination."""

MIN_NAMED_MS = 5.0
"""Sites inside which messages are shorter than this are not named as slow."""
MAX_DISTANCES = 1 << 14


class PathView(msgspec.Struct, frozen=True, dict=True):
    """What can be told of the paths of one contract to one destination."""

    live: LiveMap
    graph: Graph
    """Links that are up, with the delays of the topic class and probabilities of failure; the ends are up."""
    contract: Contract
    topic_class: int
    source: str
    destination: str
    rate_mbps: float = 0.0
    """What the contract sends, as far as it is known."""
    loads: LinkLoads = NO_LOADS
    regions: Mapping[str, Region] = msgspec.field(default_factory=dict)
    others: Mapping[str, Sequence[SitePath]] = msgspec.field(default_factory=dict)
    """Paths of the contracts that `apart_from` names, from here to the same destination."""
    distances: dict[tuple[SitePath, SitePath], float] = msgspec.field(default_factory=dict)
    """Distances between paths that were found before: they never change."""
    whole: Graph | None = None
    """Where the graph lacks links that other contracts use: all that are up."""

    @cached_property
    def pools(self) -> dict[PathLimits, dict[SitePath, None]]:
        """Candidates that were found before, by the limits that they were sought under."""
        return {}

    @cached_property
    def disjoint_pair(self) -> tuple[NodePath, NodePath] | None:
        """Two paths that share nothing but their ends."""
        return disjoint_pair(self.graph, *self.ends)

    @cached_property
    def _resiliencies(self) -> dict[tuple[SitePath, ...], float]:
        return {}

    @cached_property
    def ends(self) -> tuple[int, int]:
        """Source and destination as nodes of the graph."""
        return self.graph.index(self.source), self.graph.index(self.destination)

    @property
    def placed(self) -> bool:
        """Whether all sites that links lead to have a place; if not, no distance can be told."""
        return not self.graph.unplaced

    def delay_ms(self, path: SitePath) -> float:
        """Predicted delay of a path."""
        return self.live.path_ms(path, self.topic_class)

    @property
    def inside_ms(self) -> float:
        """What the time inside both ends takes of a deadline, whatever the path."""
        return sum(self.live.inside_ms(self.source, self.destination))

    def shortest_ms(self) -> float:
        """Delay of the fastest path that there is."""
        source, destination = self.ends
        distance, _ = trees(self.graph, [source])
        return float(distance[0][destination])

    def resiliency(self, paths: Sequence[SitePath]) -> float:
        """Probability that one of the paths is up."""
        key = tuple(paths)
        found = self._resiliencies.get(key)
        if found is None:
            found = resiliency(self.graph, [self.graph.indices(path) for path in paths])
            self._resiliencies[key] = found
        return found

    def cost(self, path: SitePath) -> float:
        """Delay of a path, its links as much longer as they are loaded."""
        total = 0.0
        for hop in pairwise(path):
            total += self.live.hop_ms(hop, self.topic_class) * self.loads.stretch(hop, self.rate_mbps)
        return total

    def free_mbps(self, path: SitePath) -> float | None:
        """Rate that a path can take beside what else is on its links; None without limit."""
        return self.loads.free_mbps(path)

    def has_room(self, path: SitePath) -> bool:
        """Whether the contract's rate fits."""
        free = self.free_mbps(path)
        return free is None or free >= self.rate_mbps

    def areas(self) -> list[Area]:
        """The regions from which the contract keeps away."""
        named = [self.regions[name] for name in self.contract.apart_from if name in self.regions]
        return [Area.disc(region.centre, region.radius_km) for region in named]

    def apart_km(self, path: SitePath) -> float:
        """Distance from what `apart_from` names, as far as a choice of path can change it.

        An end that is too near to a region, or inside it, counts for nothing: every path has it.
        """
        if not self.placed or not self.contract.apart_from:
            return math.inf
        nodes = self.graph.indices(path)
        found = [math.inf]
        for area in self.areas():
            at_ends = min(distance_from_region(self.graph, [end], area) for end in self.ends)
            if at_ends >= self.contract.separation_km:
                found.append(distance_from_region(self.graph, nodes, area))
            else:
                found.append(inner_distance_from_region(self.graph, nodes, area))
        found += [self.distance_km(path, other) for others in self.others.values() for other in others]
        return min(found)

    def distance_km(self, first: SitePath, second: SitePath) -> float:
        """How far apart two paths run between their ends."""
        if not self.placed:
            return math.inf
        graph = self.whole or self.graph
        # The second path may be of another topic, with links that are down by now.
        if not graph.leads(second):
            return math.inf
        key = (first, second) if first < second else (second, first)
        if key not in self.distances:
            if len(self.distances) >= MAX_DISTANCES:
                self.distances.clear()
            found = separation(graph, graph.indices(first), graph.indices(second))
            self.distances[key] = math.inf if found is None else found
        return self.distances[key]

    def named(self, path: NodePath) -> SitePath:
        """A path of the graph in names."""
        return self.graph.named(path)

    # -- what is asked, and what is given -----------------------------------------------------------------

    def in_limits(self, path: SitePath) -> bool:
        """Whether a path keeps the deadline and the number of hops."""
        contract = self.contract
        if contract.max_hops is not None and len(path) - 1 > contract.max_hops:
            return False
        return contract.deadline_ms is None or self.delay_ms(path) <= contract.deadline_ms

    def assess(self, paths: Sequence[SitePath]) -> tuple[Requirement, ...]:
        """Everything that the contract asks, the strongest first, beside what these paths give.

        A rate is asked for only by its key; one that is merely observed serves the choice. Paths beyond the
        deadline or the number of hops count only while there are no others.
        """
        paths = [path for path in paths if math.isfinite(self.delay_ms(path))]
        good = [path for path in paths if self.in_limits(path)]
        used = good or paths
        return (*self._limits(paths, good), *self._outside(used), *self._of_set(used), *self._rate(used))

    def _outside(self, paths: Sequence[SitePath]) -> list[Requirement]:
        """How many of the paths keep out of regions that are endangered now."""
        dangers = self.live.dangers
        if not dangers.active or not paths:
            return []
        inside = [path for path in paths if dangers.touches(path)]
        names = sorted({name for path in inside for name in dangers.touched_by(path)})
        achieved = len(paths) - len(inside)
        return [Requirement(name="outside", asked=len(paths), achieved=achieved, apart_from=", ".join(names))]

    def around(self) -> PathView:
        """The same network without what is endangered."""
        graph, links = self.graph, self.live.dangers.links
        kept = [
            place
            for place, (u, v) in enumerate(graph.ends)
            if site_pair(graph.names[u], graph.names[v]) not in links
        ]
        left = msgspec.structs.replace(
            graph,
            ends=graph.ends[kept],
            weights=graph.weights[kept],
            edge_failure=graph.edge_failure[kept],
            via=tuple(graph.via[link] for link in kept),
        )
        return msgspec.structs.replace(self, graph=left, whole=graph)

    def _limits(self, paths: Sequence[SitePath], good: Sequence[SitePath]) -> list[Requirement]:
        contract, found = self.contract, []
        if contract.deadline_ms is not None:
            delays = [self.delay_ms(path) for path in good or paths]
            slowest, fastest = max(delays, default=math.inf), min(delays, default=math.inf)
            achieved = slowest if slowest <= contract.deadline_ms else fastest
            inside = zip((self.source, self.destination), self._inside_ms(), strict=True)
            slow = {site: round(each, 1) for site, each in inside if each >= MIN_NAMED_MS}
            needed = _requirement("deadline_ms", contract.deadline_ms, achieved)
            found.append(structs.replace(needed, inside_ms=slow))
        if contract.max_hops is not None:
            hops = [len(path) - 1 for path in good or paths]
            longest, shortest = max(hops, default=math.inf), min(hops, default=math.inf)
            achieved = longest if longest <= contract.max_hops else shortest
            found.append(_requirement("max_hops", contract.max_hops, achieved))
        return found

    def _inside_ms(self) -> tuple[float, float]:
        return self.live.inside_ms(self.source, self.destination)

    def _of_set(self, paths: Sequence[SitePath]) -> list[Requirement]:
        contract, found = self.contract, []
        if contract.paths > 1 or not paths:
            found.append(Requirement(name="paths", asked=contract.paths, achieved=len(paths)))
        if contract.resiliency is not None:
            achieved = self.resiliency(paths)
            found.append(Requirement(name="resiliency", asked=contract.resiliency, achieved=achieved))
        if contract.separation_km and self.placed:
            between = [
                self.distance_km(first, second)
                for position, first in enumerate(paths)
                for second in paths[position + 1 :]
            ]
            if between:
                found.append(_requirement("separation_km", contract.separation_km, min(between)))
            found += [self._apart(paths, name) for name in contract.apart_from]
        return found

    def _apart(self, paths: Sequence[SitePath], name: str) -> Requirement:
        if name in self.regions:
            region = self.regions[name]
            area = Area.disc(region.centre, region.radius_km)
            away = [distance_from_region(self.graph, self.graph.indices(path), area) for path in paths]
        else:
            away = [self.distance_km(path, other) for path in paths for other in self.others.get(name, ())]
        asked = self.contract.separation_km
        return _requirement("separation_km", asked, min(away, default=math.inf), name)

    def _rate(self, paths: Sequence[SitePath]) -> list[Requirement]:
        if self.contract.rate_mbps is None:
            return []
        free = [room for path in paths if (room := self.free_mbps(path)) is not None]
        return [_requirement("rate_mbps", self.contract.rate_mbps, min(free, default=math.inf))]


def _requirement(name: str, asked: float, achieved: float, apart_from: str = "") -> Requirement:
    at_most = name in ("deadline_ms", "max_hops")
    without_limit = math.isinf(achieved) and not at_most
    return Requirement(
        name=name,
        asked=asked,
        achieved=None if without_limit else round(achieved, 6),
        apart_from=apart_from,
    )
