"""The candidates from which the paths of a contract are chosen.

The k shortest paths of Harmony §3.2 alone are often near-copies of each other. Those that are as disjoint, as
far apart or as free of load as can be are added, so that a small pool holds a good set if the network does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
from msgspec.structs import replace

from mangrove.overlay.routes.path_view import PathView, SitePath
from mangrove.routing.network.geography import Floats
from mangrove.routing.network.graph import Graph, NodePath
from mangrove.routing.network.regions import Damage, Mask, Region, damage
from mangrove.routing.paths.disjoint import disjoint_path
from mangrove.routing.paths.gap import GapOptions, alternative_path
from mangrove.routing.paths.path_limits import FREE, PathLimits
from mangrove.routing.paths.shortest import k_shortest, shortest_within_hops, trees

DEPTH = 12
"""How many of the shortest paths are looked at."""
MOST = 16
"""Candidates of a set with several paths; the search is exponential in the size of the set."""


def candidate_paths(view: PathView, kept: Sequence[SitePath], limits: PathLimits = FREE) -> list[SitePath]:
    """Paths within the limits, those that keep apart and the ones in use first, then in order of delay."""
    pool = view.pools.get(limits)
    if pool is None:
        pool = view.pools[limits] = _pool(view, limits)
    if not pool:
        return []
    most = _most(view)
    found = dict.fromkeys(kept)
    found |= pool
    within = [path for path in found if _hold(view, path, limits)]
    return within if most == 1 else within[:MOST]


def _pool(view: PathView, limits: PathLimits) -> dict[SitePath, None]:
    """The paths to look at, whatever is in use: those that keep apart first; none if there is no way."""
    graph, ends = view.graph, view.ends
    shortest = k_shortest(graph, *ends, DEPTH)
    if not shortest:
        return {}
    special: list[NodePath] = []
    if limits.max_hops is not None:
        special.append(shortest_within_hops(graph, *ends, limits.max_hops))
    special += _avoiding(view)
    special += _unloaded(view)
    most = _most(view)
    if most > 1:
        special += _diverse(view, shortest[0], most, limits)
    return dict.fromkeys(view.named(path) for path in [*special, *shortest] if path)


def _most(view: PathView) -> int:
    """How many paths a set may have."""
    contract = view.contract
    return contract.max_paths if contract.resiliency is not None else contract.paths


def _hold(view: PathView, path: SitePath, limits: PathLimits) -> bool:
    if limits.max_hops is not None and len(path) - 1 > limits.max_hops:
        return False
    return limits.allow_length(view.delay_ms(path))


def _diverse(view: PathView, primary: NodePath, count: int, limits: PathLimits) -> Iterable[NodePath]:
    """Paths that share as little as possible, and if asked for keep apart from each other."""
    graph = view.graph
    yield from view.disjoint_pair or ()
    separation = view.contract.separation_km
    others = [primary]
    while len(others) < count:
        # How near it runs does not matter here: the first that shares least will do.
        path = disjoint_path(graph, others, separation=1.0, enough=1.0, limits=limits)
        if not path:
            break
        others.append(path)
        yield path
    if separation and view.placed:
        known = [primary]
        while len(known) < count + 1:
            found = alternative_path(graph, known, GapOptions(separation), limits)
            if found is None:
                break
            known.append(found.path)
            yield found.path


def _avoiding(view: PathView) -> Iterable[NodePath]:
    """Paths that keep away from the regions and paths that the contract names."""
    contract, graph = view.contract, view.graph
    if not contract.apart_from or not view.placed:
        return
    for margin in (contract.separation_km, 0.0):
        weights = graph.weights
        for area in view.areas():
            around = Region(area.points, area.radius + margin)
            hit = damage(graph, around, cut_links=True)
            weights = np.where(_spare_ends(hit, graph, view.ends), np.inf, weights)
        yield from _remaining(graph, view.ends, weights)
    known = [graph.indices(path) for others in view.others.values() for path in others if graph.leads(path)]
    while 0 < len(known) < MOST:
        found = alternative_path(graph, known, GapOptions(contract.separation_km))
        if found is None:
            return
        yield found.path
        known.append(found.path)
        if len(known) > len(view.others) + 2:
            return


def _spare_ends(
    hit: Damage, graph: Graph, ends: tuple[int, int]
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Links to leave out: those inside, but for what begins or ends at an end that is inside itself."""
    nodes = hit.nodes.copy()
    nodes[list(ends)] = False
    at_struck_end = (hit.nodes & ~nodes)[graph.ends].any(axis=1)
    gone: Mask = nodes[graph.ends].any(axis=1) | (hit.links & ~at_struck_end)
    return gone


def _remaining(graph: Graph, ends: tuple[int, int], weights: Floats) -> list[NodePath]:
    up = np.flatnonzero(np.isfinite(weights))
    left = replace(
        graph,
        ends=graph.ends[up],
        weights=graph.weights[up],
        edge_failure=graph.edge_failure[up],
        via=tuple(graph.via[link] for link in up),
    )
    return k_shortest(left, *ends, DEPTH // 2)


def _unloaded(view: PathView) -> list[NodePath]:
    """The shortest paths if loaded links were as much longer as their load makes them."""
    if not view.rate_mbps:
        return []
    graph = view.graph
    near = {name: place for place, name in enumerate(_outwards(view))}
    weights = []
    for (u, v), weight in zip(graph.pairs, graph.link_weights, strict=True):
        hop = sorted((graph.names[u], graph.names[v]), key=lambda name: near[name])
        weights.append(weight * view.loads.stretch((hop[0], hop[1]), view.rate_mbps))
    return k_shortest(graph.with_values(weights=np.array(weights)), *view.ends, DEPTH // 2)


def _outwards(view: PathView) -> list[str]:
    """Sites in the order of their distance: links are loaded in the direction that leads away from here."""
    distance, _ = trees(view.graph, [view.ends[0]])
    return [view.graph.names[index] for index in np.argsort(distance[0], kind="stable")]


def shared(paths: Sequence[SitePath]) -> int:
    """How many links and inner sites more than one of the paths needs."""
    seen: set[object] = set()
    twice: set[object] = set()
    for path in paths:
        for part in (*path[1:-1], *(tuple(sorted(pair)) for pair in pairwise(path))):
            (twice if part in seen else seen).add(part)
    return len(twice)
