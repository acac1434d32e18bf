"""Which paths a contract should use, on the network as it is now (Harmony §3.2, thesis §5.2).

Several things may be asked at once. If the network cannot give them all, they yield in this order: the rate
first, then the separation, then keeping out of endangered regions, then the resiliency, then the number of
paths, then the hops, and the deadline last. What yields is still brought as near to what was asked as the
stronger ones allow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from mangrove.model.status import Requirement, unmet_text
from mangrove.overlay.routes.path_pool import candidate_paths, shared
from mangrove.overlay.routes.path_view import PathView, SitePath
from mangrove.routing.network.graph import Graph, NoPathError
from mangrove.routing.paths.path_limits import FREE, PathLimits
from mangrove.routing.paths.planner import Method, PathRequest, parallel_paths
from mangrove.routing.paths.sufficient_set import SufficientSet, sufficient_set


class Choice(msgspec.Struct, frozen=True):
    """Paths for a contract, and what they give of what it asks."""

    paths: tuple[SitePath, ...]
    requirements: tuple[Requirement, ...]

    @property
    def unmet(self) -> str:
        """What is missed, in words; empty if nothing is."""
        return unmet_text(self.requirements)

    def better_than(self, other: Choice, *, but_for: str = "") -> bool:
        """Whether it gives more of what matters most: met against missed, or missed by clearly less."""
        for name in STRENGTH:
            if name == but_for:
                continue
            mine, theirs = _shortfall(self, name), _shortfall(other, name)
            if (mine == 0) != (theirs == 0):
                return mine == 0
            if abs(mine - theirs) > CLEARLY * max(mine, theirs):
                return mine < theirs
        return False


CLEARLY = 0.1
STRENGTH = ("deadline_ms", "max_hops", "paths", "resiliency", "outside", "separation_km", "rate_mbps")


def _shortfall(choice: Choice, name: str) -> float:
    missed = (each.shortfall for each in choice.requirements if each.name == name and not each.met)
    return max(missed, default=0.0)


def judged(view: PathView, paths: Sequence[SitePath]) -> Choice:
    """These paths as a choice."""
    return Choice(tuple(paths), view.assess(paths))


def choose_paths(view: PathView, kept: Sequence[SitePath] = ()) -> Choice:
    """The paths to use, those `kept` among them where they serve; none if there is no way."""
    found = _choose(view, kept)
    dangers = view.live.dangers
    if not any(dangers.touches(path) for path in found.paths):
        return found
    around = _choose(view.around(), [path for path in kept if not dangers.touches(path)])
    # All outside, or one of those and the rest where it is. A link or site that all paths need is a danger
    # too: no more of those are taken on.
    options = [judged(view, around.paths), *(_choose(view, [path]) for path in around.paths)]
    for other in options:
        if other.better_than(found) and shared(other.paths) <= shared(found.paths):
            found = other
    return found


def _choose(view: PathView, kept: Sequence[SitePath]) -> Choice:
    contract = view.contract
    hops, deadline = contract.max_hops, contract.deadline_ms or math.inf
    for limits in dict.fromkeys((PathLimits(deadline, hops), PathLimits(deadline), FREE)):
        usable = [path for path in kept if limits.allow_length(view.delay_ms(path))]
        if limits.max_hops is not None:
            usable = [path for path in usable if len(path) - 1 <= limits.max_hops]
        choice = _within(view, usable, limits)
        if choice.paths:
            return choice
    return judged(view, ())


def _within(view: PathView, kept: Sequence[SitePath], limits: PathLimits) -> Choice:
    contract = view.contract
    planned: Choice | None = None
    if contract.paths > 1 and contract.resiliency is None:
        planned = judged(view, _planned(view, kept, limits))
        if planned.paths and not planned.unmet and not _crowded(view, planned) and not shared(planned.paths):
            return planned
    candidates = candidate_paths(view, kept, limits)
    if not candidates:
        return planned or judged(view, ())
    found = judged(view, _Selection(view, candidates).best(kept))
    if planned is None or not planned.paths:
        return found
    if found.better_than(planned):
        return found
    if planned.better_than(found) or shared(planned.paths) <= shared(found.paths):
        return planned
    return found


def _crowded(view: PathView, choice: Choice) -> bool:
    return not all(view.has_room(path) for path in choice.paths)


def _planned(view: PathView, kept: Sequence[SitePath], limits: PathLimits) -> list[SitePath]:
    """As many paths as are asked for, as disjoint or as far apart as the planner finds them."""
    graph, contract, ends = view.graph, view.contract, view.ends
    if len(kept) >= contract.paths:
        return list(kept[: contract.paths])
    on_links_ms = limits.max_delay - view.inside_ms
    if on_links_ms <= 0:
        return []
    limits = msgspec.structs.replace(limits, max_delay=on_links_ms)
    apart = contract.separation_km > 0 and view.placed
    method, separation = (Method.GAP_DIV, contract.separation_km) if apart else (Method.DISJOINT, None)
    request = PathRequest(method=method, paths=contract.paths, separation=separation, limits=limits)
    primary = graph.indices(kept[0]) if kept else None
    try:
        paths = [graph.named(path) for path in parallel_paths(graph, *ends, request, primary)]
    except NoPathError:
        return []
    if len(paths) == 2 and shared(paths):
        # The first path may stand in the way of every disjoint second one: choose both anew.
        pair = view.disjoint_pair
        if pair is not None and all(limits.hold(graph, path) for path in pair):
            paths = [graph.named(path) for path in pair]
    return paths


class _Selection:
    """The best set out of candidates that all keep the limits."""

    def __init__(self, view: PathView, candidates: Sequence[SitePath]) -> None:
        self._view = view
        self._contract = contract = view.contract
        self._candidates = list(candidates)
        self._nodes = [view.graph.indices(path) for path in candidates]
        self._least = min(contract.paths, contract.max_paths) if contract.resiliency else contract.paths
        self._most = contract.max_paths if contract.resiliency else contract.paths
        self._costs = [view.cost(path) for path in candidates]
        self._apart = [view.apart_km(path) for path in candidates]
        self._between: dict[tuple[int, int], float] = {}
        single = self._most == 1 and contract.resiliency is None
        self._graph = _infallible(view.graph) if single else view.graph

    def best(self, kept: Sequence[SitePath]) -> list[SitePath]:
        """What meets everything, or gives up as little as possible in the order of strength."""
        asked = self._contract.separation_km
        room = [index for index, path in enumerate(self._candidates) if self._view.has_room(path)]
        every = list(range(len(self._candidates)))
        for open_ in (room, every):
            found = self._search(open_, asked)
            if found.suffices:
                return self._stable(found, open_, asked, kept)
        # Not with that separation: the largest with which it can be done at all.
        levels = sorted({0.0, *(each for each in self._levels() if each < asked)})
        if asked and self._search(every, 0.0).suffices:
            low, high = 0, len(levels) - 1
            while low < high:
                middle = (low + high + 1) // 2
                if self._search(every, levels[middle]).suffices:
                    low = middle
                else:
                    high = middle - 1
            return self._stable(self._search(every, levels[low]), every, levels[low], kept)
        return self._stable(self._search(every, 0.0), every, 0.0, kept)

    def _levels(self) -> list[float]:
        found = list(self._apart)
        if self._most > 1:
            count = len(self._candidates)
            found += [self._km(i, j) for i in range(count) for j in range(i + 1, count)]
        return [each for each in found if math.isfinite(each)]

    def _km(self, first: int, second: int) -> float:
        key = (first, second) if first < second else (second, first)
        if key not in self._between:
            self._between[key] = self._view.distance_km(*(self._candidates[index] for index in key))
        return self._between[key]

    def _search(self, open_: list[int], separation_km: float, held: Sequence[SitePath] = ()) -> SufficientSet:
        allowed = [index for index in open_ if self._apart[index] >= separation_km]
        nodes = [self._nodes[index] for index in allowed]

        def together(first: int, second: int) -> bool:
            return self._km(allowed[first], allowed[second]) >= separation_km

        place = {self._candidates[index]: position for position, index in enumerate(allowed)}
        return sufficient_set(
            self._graph,
            nodes,
            self._contract.resiliency or 0.0,
            least=self._least,
            most=max(self._most, self._least),
            together=together if separation_km else None,
            held=[place[path] for path in held if path in place],
            costs=[self._costs[index] for index in allowed],
        )

    def _stable(
        self, found: SufficientSet, open_: list[int], separation_km: float, kept: Sequence[SitePath]
    ) -> list[SitePath]:
        """The same with the paths that are in use already, if no more paths are needed then."""
        in_use = self._in_use(open_, separation_km, kept)[: len(found.paths)]
        if in_use and found.suffices and self._most > 1:
            other = self._search(open_, separation_km, in_use)
            if other.suffices and len(other.paths) == len(found.paths):
                found = other
        return [self._view.named(path) for path in found.paths]

    def _in_use(self, open_: list[int], separation_km: float, kept: Sequence[SitePath]) -> list[SitePath]:
        """Those in use, as many as are allowed to be together."""
        held: list[int] = []
        for index in (self._candidates.index(path) for path in kept if path in self._candidates):
            apart = self._apart[index] >= separation_km
            if index in open_ and apart and all(self._km(index, other) >= separation_km for other in held):
                held.append(index)
        return [self._candidates[index] for index in held]


def _infallible(graph: Graph) -> Graph:
    """One path without a promise of probability: what counts is how fast it is."""
    return graph.with_values(node_failure=np.zeros(graph.size), edge_failure=np.zeros(graph.links))
