"""How near two paths run to each other: the proximity factor, in the two readings that the thesis gives it.

Figure 5-1 counts near *pairs* of nodes over the primary's hops, and can exceed one. Section 5.4.1 and the
log of appendix 6.2 use the *share* of the primary's nodes that lie near the alternative, which never does.
The two are named apart here; reports use the share.

The ends that two paths have in common make the nodes next to them near, however far apart the paths run.
The figures of the log (2/7 for a path of seven nodes, 2/8 for one of eight) can only come about when the
common ends are compared with nothing but themselves; that reading is `inner_near_share`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mangrove.routing.network.geography import Floats, distances
from mangrove.routing.network.graph import Graph


def near_share(graph: Graph, primary: Sequence[int], alternative: Sequence[int], separation: float) -> float:
    """Share of the primary's nodes that lie within `separation` of a node of the alternative (§5.4.1)."""
    return float((_between(graph, primary, alternative) < separation).any(axis=1).mean())


def inner_near_share(
    graph: Graph, primary: Sequence[int], alternative: Sequence[int], separation: float
) -> float:
    """As `near_share`, but inner nodes are compared with inner nodes only; both common ends count as near."""
    if len(primary) <= 2:
        return 1.0
    near = 0
    if len(alternative) > 2:
        near = int((_between(graph, primary[1:-1], alternative[1:-1]) < separation).any(axis=1).sum())
    return (near + 2) / len(primary)


def near_pairs_per_hop(
    graph: Graph, primary: Sequence[int], alternative: Sequence[int], separation: float
) -> float:
    """Near pairs of nodes over the hops of the primary (figure 5-1)."""
    near = int((_between(graph, primary, alternative) < separation).sum())
    return near / max(len(primary) - 1, 1)


def distance_from_paths(graph: Graph, paths: Sequence[Sequence[int]]) -> Floats:
    """Distance of every node of the graph from the nearest node on any of the paths."""
    nodes = np.unique(np.concatenate([np.asarray(path) for path in paths]))
    nearest: Floats = distances(graph.plane, graph.positions[nodes], graph.positions).min(axis=0)
    return nearest


def _between(graph: Graph, primary: Sequence[int], alternative: Sequence[int]) -> Floats:
    on = graph.positions
    return distances(graph.plane, on[list(primary)], on[list(alternative)])
