"""Maximally disjoint paths with relaxation (thesis figure 5-4).

The links of the paths to avoid, and by half those that touch their inner nodes, are made heavier, so that
the shortest path becomes one that shares as little as possible with them. When it still runs too near, the
weight is relaxed and the search goes on.

The figure's last line returns the candidate with the *largest* proximity factor; since a small factor means
separation (figure 5-1), it is read as the smallest.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mangrove.routing.network.geography import Floats
from mangrove.routing.network.graph import Graph, NodePath
from mangrove.routing.network.proximity import near_share
from mangrove.routing.paths.path_limits import FREE, PathLimits
from mangrove.routing.paths.penalty import PenalisedSearch, Relaxation, penalties


def disjoint_path(
    graph: Graph,
    avoid: Sequence[NodePath],
    *,
    separation: float,
    enough: float = 0.0,
    divisor: float = 10.0,
    limits: PathLimits = FREE,
) -> NodePath:
    """A path that is as disjoint from those of `avoid` as can be; empty when there is none.

    The first candidate whose proximity to every path of `avoid` is at most `enough` is returned, else the
    least proximate one. Proximity is the share of near nodes; on a graph without places all are equally
    near, and the first candidate wins.
    """
    search = PenalisedSearch(graph, avoid[0][0], avoid[0][-1], limits)
    if search.hopeless(avoid):
        return ()
    share = _overlap(graph, avoid)
    candidates: dict[NodePath, float] = {}
    for penalty in penalties(graph, Relaxation.DIVIDE, divisor):
        path = search.path(graph.weights + share * penalty)
        if not search.acceptable(path, avoid):
            continue
        if path not in candidates:
            candidates[path] = max(near_share(graph, known, path, separation) for known in avoid)
        if candidates[path] <= enough:
            return path
    if candidates:
        return min(candidates, key=lambda path: candidates[path])
    return search.any_other(avoid, share, separation)


def disjoint_paths(
    graph: Graph, primary: NodePath, count: int, *, separation: float, limits: PathLimits = FREE
) -> list[NodePath]:
    """Up to `count` alternatives, each as disjoint as can be from the primary and the ones before."""
    known = [primary]
    while len(known) <= count:
        path = disjoint_path(graph, known, separation=separation, limits=limits)
        if not path:
            break
        known.append(path)
    return known[1:]


def _overlap(graph: Graph, avoid: Sequence[NodePath]) -> Floats:
    """1 for a link of a path to avoid, 1/2 for a link that touches an inner node of one, else 0."""
    inner = np.zeros(graph.size, dtype=bool)
    for path in avoid:
        inner[list(path[1:-1])] = True
    share: Floats = np.where(inner[graph.ends].any(axis=1), 0.5, 0.0)
    for path in avoid:
        share[graph.path_links(path)] = 1.0
    return share
