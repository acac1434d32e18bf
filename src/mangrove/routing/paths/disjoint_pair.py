"""Two paths that share no link and no inner node, with the least total length (Suurballe; Bhandari's form).

A shortest path may stand in the way of every path that is disjoint from it, though two others would be
disjoint from each other. Here the second search may run backwards over the first path and so undo parts of
it; two rounds find a disjoint pair whenever there is one.
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise

from mangrove.routing.network.graph import Graph, NodePath

_Port = tuple[int, bool]
"""A node's entrance (False) or exit (True): one arc between them lets only one path through."""


def disjoint_pair(graph: Graph, source: int, destination: int) -> tuple[NodePath, NodePath] | None:
    """Two disjoint paths, the shorter first; None when no two exist."""
    arcs: dict[_Port, dict[_Port, float]] = {
        (node, leaving): {} for node in range(graph.size) for leaving in (False, True)
    }
    for node in range(graph.size):
        arcs[node, False][node, True] = 0.0
    for (u, v), weight in zip(graph.pairs, graph.link_weights, strict=True):
        arcs[u, True][v, False] = weight
        arcs[v, True][u, False] = weight
    used: set[tuple[int, int]] = set()
    for _ in range(2):
        way = _cheapest(arcs, (source, True), (destination, False))
        if not way:
            return None
        for (u, leaving), (v, entering) in pairwise(way):
            # Turn the arc round: the next search may take it back.
            arcs[v, entering][u, leaving] = -arcs[u, leaving].pop((v, entering))
            if u != v and leaving:
                used.add((u, v))
            elif u != v:
                used.discard((v, u))
    following = {u: v for u, v in sorted(used) if u != source}
    paths = []
    for first in sorted(v for u, v in used if u == source):
        path = [source, first]
        while path[-1] != destination:
            path.append(following[path[-1]])
        paths.append(tuple(path))
    shorter, longer = sorted(paths, key=lambda path: (graph.length(path), path))
    return shorter, longer


def _cheapest(arcs: dict[_Port, dict[_Port, float]], start: _Port, end: _Port) -> list[_Port]:
    """The cheapest way; some arcs have negative cost, but no cycle has (Bellman-Ford with a queue)."""
    cost = {start: 0.0}
    before: dict[_Port, _Port] = {}
    queue = deque([start])
    while queue:
        here = queue.popleft()
        for there, weight in arcs[here].items():
            total = cost[here] + weight
            if total < cost.get(there, float("inf")) - 1e-9:
                cost[there] = total
                before[there] = here
                if there not in queue:
                    queue.append(there)
    if end not in cost:
        return []
    way = [end]
    while way[-1] != start:
        way.append(before[way[-1]])
    return way[::-1]
