"""Which paths a contract should use, on the network as it is now (Harmony §3.2, thesis §5.2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from mangrove.errors import MangroveError
from mangrove.model.site_pair import site_pair
from mangrove.model.topics import Contract
from mangrove.overlay.network.live_map import LiveMap
from mangrove.routing.network.graph import Graph, NoPathError
from mangrove.routing.paths.disjoint_pair import disjoint_pair
from mangrove.routing.paths.path_limits import FREE, PathLimits
from mangrove.routing.paths.planner import Method, PathRequest, plan_paths

SitePath = tuple[str, ...]
"""The sites of a path, from its source to its destination."""


MIN_LEFT_MS = 0.001
"""What is left for the links of a path where nothing is left."""
MIN_NAMED_MS = 5.0
"""Sites where messages are shorter than this are not named as slow."""


class PathChoice:
    """Chooses paths from one domain on the live map."""

    def __init__(self, domain: str, live: LiveMap) -> None:
        self._domain = domain
        self._live = live

    def paths(
        self, contract: Contract, topic_class: int, destination: str, kept: list[SitePath]
    ) -> tuple[list[SitePath], str]:
        """The paths to use, those `kept` among them, and why the contract cannot be met if it cannot."""
        graph = self._live.live_graph(topic_class)
        inside_ms = self._live.inside_ms(self._domain, destination)
        limit = FREE
        if contract.deadline_ms is not None:
            limit = PathLimits(max_delay=max(contract.deadline_ms - sum(inside_ms), MIN_LEFT_MS))
        try:
            paths = self._within(graph, contract, destination, kept, limit)
        except NoPathError:
            try:
                paths = self._within(graph, contract, destination, [], FREE)
            except NoPathError as error:
                return [], error.message
            best = min(self._live.path_ms(path, topic_class) for path in paths)
            found = f"best achievable delay is {best:.1f} ms, the deadline {contract.deadline_ms} ms"
            return paths, found + _inside(self._domain, destination, *inside_ms)
        if len(paths) < contract.paths:
            return paths, f"{len(paths)} of {contract.paths} paths exist within the contract"
        return paths, ""

    def _within(
        self, graph: Graph, contract: Contract, destination: str, kept: list[SitePath], limit: PathLimits
    ) -> list[SitePath]:
        if len(kept) >= contract.paths:
            return kept
        method = Method.GAP_DIV if contract.separation_km > 0 else Method.DISJOINT
        separation = contract.separation_km or None
        request = PathRequest(method=method, paths=contract.paths, separation=separation, limits=limit)
        ends = graph.index(self._domain), graph.index(destination)
        primary = graph.indices(kept[0]) if kept else None
        try:
            plan = plan_paths(graph, *ends, request, primary)
        except NoPathError:
            raise
        except MangroveError:
            # Sites without a location cannot be kept apart by distance; by links they can.
            request = PathRequest(Method.DISJOINT, contract.paths, None, limit)
            plan = plan_paths(graph, *ends, request, primary)
        paths = [graph.named(path) for path in plan.paths]
        if len(paths) == 2 and shared(paths):
            # The first path may stand in the way of every disjoint second one: choose both anew.
            pair = disjoint_pair(graph, *ends)
            if pair is not None and all(limit.hold(graph, path) for path in pair):
                paths = [graph.named(path) for path in pair]
        return paths


def _inside(source: str, destination: str, ingress_ms: float, egress_ms: float) -> str:
    """Which of the ends is slow inside, if one is."""
    named = [
        f"{inside_ms:.1f} ms of it inside {site}"
        for site, inside_ms in ((source, ingress_ms), (destination, egress_ms))
        if inside_ms >= MIN_NAMED_MS
    ]
    return "".join(f", {text}" for text in named)


def shared(paths: Sequence[SitePath]) -> int:
    """How many links and inner sites more than one of the paths needs."""
    uses: Counter[object] = Counter(
        part for path in paths for part in (*path[1:-1], *(site_pair(*pair) for pair in pairwise(path)))
    )
    return sum(count > 1 for count in uses.values())
