"""How near two paths run to each other: the proximity factor, in the two readings that the thesis gives it.

Figure 5-1 counts near *pairs* of nodes over the primary's hops, and can exceed one. Section 5.4.1 and the
log of appendix 6.2 use the *share* of the primary's nodes that lie near the alternative, which never does.
The two are named apart here; reports use the share.

The ends that two paths have in common make the nodes next to them near, however far apart the paths run.
The figures of the log (2/7 for a path of seven nodes, 2/8 for one of eight) can only come about when the
common ends are compared with nothing but themselves; that reading is `inner_near_share`.

Waypoints of fibres count as the places of nodes do. `separation` is the distance between two paths in the
unit of the plane instead of a share, along the fibres and not only at their places. Ends that both paths have
are left out of it, and with them the pieces of fibre that lead to them: there two paths are necessarily near.
But a fibre that crosses one of the other path is at distance 0 from it wherever that is.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product

import numpy as np

from mangrove.routing.network.geography import (
    Floats,
    Plane,
    crossing,
    distances,
    positions,
    segments_to_line,
)
from mangrove.routing.network.graph import Graph


def near_share(graph: Graph, primary: Sequence[int], alternative: Sequence[int], separation: float) -> float:
    """Share of the primary's places that lie within `separation` of one of the alternative (§5.4.1)."""
    if graph.without_places and not graph.has_waypoints:
        return 0.0
    return float((_between(graph, primary, alternative) < separation).any(axis=1).mean())


def inner_near_share(
    graph: Graph, primary: Sequence[int], alternative: Sequence[int], separation: float
) -> float:
    """As `near_share`, but inner places are compared with inner ones only; both common ends count as near."""
    inner = _between(graph, primary, alternative)[1:-1, 1:-1]
    near = int((inner < separation).any(axis=1).sum())
    return (near + 2) / (len(inner) + 2)


def near_pairs_per_hop(
    graph: Graph, primary: Sequence[int], alternative: Sequence[int], separation: float
) -> float:
    """Near pairs of places over the hops of the primary (figure 5-1)."""
    between = _between(graph, primary, alternative)
    return int((between < separation).sum()) / max(len(between) - 1, 1)


def distance_from_paths(graph: Graph, paths: Sequence[Sequence[int]]) -> Floats:
    """Distance of every node of the graph from the nearest place on any of the paths."""
    return distance_from(graph, paths, graph.positions)


def distance_from(graph: Graph, paths: Sequence[Sequence[int]], at: Floats) -> Floats:
    """Distance of positions from the nearest place, a node or a waypoint, on any of the paths."""
    nodes = np.unique(np.concatenate([np.asarray(path) for path in paths]))
    on = graph.positions[nodes]
    if graph.has_waypoints:
        waypoints = [graph.places(path) for path in paths]
        on = positions(graph.plane, np.concatenate(waypoints))
    nearest: Floats = distances(graph.plane, on, at).min(axis=0)
    return nearest


def separation(graph: Graph, first: Sequence[int], second: Sequence[int]) -> float | None:
    """Least distance between two paths along their fibres, common ends left out; None if a place is unknown.

    A path that is one straight fibre has nothing inside: it is taken whole, and the other path still without
    the ends. Paths that have an inner node or a fibre in common are at distance 0, and so are equal paths.
    """
    ends = {first[0], first[-1]} & {second[0], second[-1]}
    lines = [_Line(graph, path, ends) for path in (first, second)]
    if any(np.isnan(line.places).any() for line in lines):
        return None
    if any(_cross(graph, *pieces) for pieces in product(lines[0].pieces, lines[1].pieces)):
        return 0.0
    if not lines[0].inner.size and not lines[1].inner.size:
        return 0.0
    one, other = (line.inner if line.inner.size else line.places for line in lines)
    starts, stops = (one[:-1], one[1:]) if len(one) > 1 else (one, one)
    return float(segments_to_line(graph.plane, starts, stops, other).min())


class _Line:
    """The places of a path as positions, and those that are not an end which the other path has too."""

    def __init__(self, graph: Graph, path: Sequence[int], ends: set[int]) -> None:
        self.places = positions(graph.plane, graph.places(path))
        first, last = path[0] in ends, path[-1] in ends
        self.inner = self.places[int(first) : len(self.places) - int(last)]
        names: list[int | None] = [None] * len(self.places)
        names[0], names[-1] = path[0] if first else None, path[-1] if last else None
        self.pieces = list(zip(pairwise(self.places), pairwise(names), strict=True))
        """Two positions each, and which of them are common ends."""


_Piece = tuple[tuple[Floats, Floats], tuple[int | None, int | None]]


def _cross(graph: Graph, one: _Piece, other: _Piece) -> bool:
    """Whether two pieces of fibre cross elsewhere than at an end that both paths have."""
    if (set(one[1]) & set(other[1])) - {None}:
        return False
    if _crossed(graph, one, other):
        return True
    # On the sphere rounding decides whether fibres that only touch count, and it may depend on their order.
    return graph.plane is Plane.GEO and _crossed(graph, other, one)


def _crossed(graph: Graph, one: _Piece, other: _Piece) -> bool:
    start, stop = one[0]
    return bool(crossing(graph.plane, start[None, :], stop[None, :], *other[0])[0])


def _between(graph: Graph, primary: Sequence[int], alternative: Sequence[int]) -> Floats:
    if graph.has_waypoints:
        one, other = (positions(graph.plane, graph.places(path)) for path in (primary, alternative))
        return distances(graph.plane, one, other)
    on = graph.positions
    return distances(graph.plane, on[list(primary)], on[list(alternative)])
