"""Shortest paths: scipy's compiled kernels, plain searches in small networks, and a search with few hops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mangrove.routing.network.geography import Floats
from mangrove.routing.network.graph import Graph, NodePath, NoPathError
from mangrove.routing.paths import plain_search
from mangrove.routing.paths.plain_search import UNREACHED, neighbours

SMALL = 32
"""Up to so many nodes a plain search takes no longer than it takes to reach a compiled one."""


def load_search(size: int) -> None:
    """Load what searches among so many nodes need, so that none of them stops for it."""
    if size > SMALL:
        import scipy.sparse.csgraph  # noqa: F401


def trees(
    graph: Graph, sources: Sequence[int] | NDArray[np.int64], weights: Floats | None = None
) -> tuple[Floats, NDArray[np.int32]]:
    """Distances and predecessors from each source."""
    if graph.size <= SMALL:
        near = neighbours_of(graph, weights)
        made = [plain_search.tree(near, int(source)) for source in sources]
        rows = len(made), graph.size
        distance = np.array([each for each, _ in made], dtype=np.float64).reshape(rows)
        return distance, np.array([each for _, each in made], dtype=np.int32).reshape(rows)
    from scipy.sparse.csgraph import dijkstra

    distance, before = dijkstra(
        graph.matrix(weights), directed=True, indices=np.asarray(sources), return_predecessors=True
    )
    return distance, before


def neighbours_of(graph: Graph, weights: Floats | None = None) -> plain_search.Near:
    """A small network for plain searches."""
    return graph.near if weights is None else neighbours(graph.size, graph.pairs, weights.tolist())


def walk(before: Sequence[int] | NDArray[np.int32], source: int, destination: int) -> NodePath:
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
    if graph.size <= SMALL:
        # Asked again and again of one graph, and the first of many paths are those of a shorter list.
        kept = graph.found_paths
        known, depth = kept.get((source, destination), ((), 0))
        if k > depth == len(known):
            known = tuple(plain_search.k_shortest(neighbours_of(graph), source, destination, k))
            kept[source, destination] = known, k
        return list(known[:k])
    from scipy.sparse.csgraph import yen

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
