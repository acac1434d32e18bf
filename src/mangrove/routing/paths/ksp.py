"""EKSP: of the k shortest paths the one least near to the primary (thesis §5.4.1, figure 5-3)."""

from __future__ import annotations

from mangrove.routing.network.graph import Graph, NodePath
from mangrove.routing.network.proximity import near_share
from mangrove.routing.paths.path_limits import FREE, PathLimits
from mangrove.routing.paths.shortest import k_shortest


def least_proximate(
    graph: Graph,
    primary: NodePath,
    count: int,
    *,
    k: int,
    separation: float,
    limits: PathLimits = FREE,
) -> list[NodePath]:
    """Up to `count` alternatives to `primary` out of the `k` shortest paths, the least near first.

    Each next one is the least near to all chosen so far; equally near ones are taken in order of length.
    """
    candidates = [
        path
        for path in k_shortest(graph, primary[0], primary[-1], k)
        if path != primary and limits.hold(graph, path)
    ]
    chosen = [primary]
    while candidates and len(chosen) <= count:
        best = min(candidates, key=lambda path: max(near_share(graph, p, path, separation) for p in chosen))
        candidates.remove(best)
        chosen.append(best)
    return chosen[1:]
