"""Shortest paths: thin doors to scipy's compiled kernels, and a search with a limit on hops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import dijkstra, yen

from mangrove.routing.network.geography import Floats
from mangrove.routing.network.graph import Graph, NodePath, NoPathError

UNREACHED = -9999  # scipy's mark for "no predecessor"


def trees(
    graph: Graph, sources: Sequence[int] | NDArray[np.int64], weights: Floats | None = None
) -> tuple[Floats, NDArray[np.int32]]:
    """Distances and predecessors from each source, many sources in one compiled call."""
    distance, before = dijkstra(
        graph.matrix(weights), directed=True, indices=np.asarray(sources), return_predecessors=True
    )
    return distance, before


def walk(before: NDArray[np.int32], source: int, destination: int) -> NodePath:
    """The path in a predecessor row; empty when the destination was not reached."""
    if source == destination:
        return (source,)
    path = [destination]
    while path[-1] != source:
        step = int(before[path[-1]])
        if step == UNREACHED:
            return ()
        path.append(step)
    return tuple(reversed(path))


def shortest_path(graph: Graph, source: int, destination: int, weights: Floats | None = None) -> NodePath:
    """The shortest path; `NoPathError` when the two are not connected."""
    _, before = trees(graph, [source], weights)
    path = walk(before[0], source, destination)
    if not path:
        raise NoPathError(graph.names[source], graph.names[destination])
    return path


def shortest_paths(graph: Graph, pairs: Sequence[tuple[int, int]]) -> list[NodePath]:
    """The shortest path of each pair, one search per distinct source; empty where there is none."""
    sources = sorted({source for source, _ in pairs})
    row = {source: index for index, source in enumerate(sources)}
    _, before = trees(graph, sources)
    return [walk(before[row[source]], source, destination) for source, destination in pairs]


def k_shortest(graph: Graph, source: int, destination: int, k: int) -> list[NodePath]:
    """Up to `k` loop-free paths in order of length (Yen)."""
    _, before = yen(graph.matrix(), source, destination, k, directed=True, return_predecessors=True)
    paths = [walk(row, source, destination) for row in before]
    return [path for path in paths if path]


def shortest_within_hops(
    graph: Graph, source: int, destination: int, max_hops: int, weights: Floats | None = None
) -> NodePath:
    """The shortest path of at most `max_hops` links; empty when there is none.

    Bellman-Ford by rounds: after round h every node knows its best walk of at most h links. With non-negative
    weights the best walk needs no node twice, and ties keep the earlier, shorter walk, so it is a path.
    """
    arcs = graph.arcs
    cost = (graph.weights if weights is None else weights)[arcs.link]
    distance = np.full(graph.size, np.inf)
    distance[source] = 0.0
    parents: list[NDArray[np.int64]] = []
    # arcs are sorted by tail; read against the direction, they are grouped by the node they lead to
    occupied = np.flatnonzero(np.diff(arcs.starts) > 0)
    offsets = arcs.starts[occupied]
    for _ in range(min(max_hops, graph.size - 1)):
        offered = distance[arcs.head] + cost
        best = np.full(graph.size, np.inf)
        best[occupied] = np.minimum.reduceat(offered, offsets)
        better = best < distance
        if not better.any():
            break
        matches = np.flatnonzero((offered == best[arcs.tail]) & better[arcs.tail])
        parent = np.full(graph.size, -1)
        parent[arcs.tail[matches][::-1]] = arcs.head[matches][::-1]
        parents.append(parent)
        distance = np.where(better, best, distance)
    if not np.isfinite(distance[destination]):
        return ()
    path = [destination]
    for parent in reversed(parents):
        if parent[path[-1]] >= 0:
            path.append(int(parent[path[-1]]))
    return tuple(reversed(path))
