"""How far apart two paths between the same ends run, and how far a path keeps from a region.

Both ends lie on every path, and so do the places around them: what counts is the inner part, from the first
site after the source to the last before the destination. A direct link has no inner site; its whole line
counts against the inner sites of the other path.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mangrove.routing.network.geography import Floats, distances_to_line, positions, segments_to_line
from mangrove.routing.network.graph import Graph
from mangrove.routing.network.regions import Region


def distance_between(graph: Graph, first: Sequence[int], second: Sequence[int]) -> float:
    """Least distance between the inner parts of two paths; infinite if both are direct."""
    if tuple(first) == tuple(second):
        return 0.0
    if len(first) <= 2 and len(second) <= 2:
        return math.inf
    one, other = (path if len(path) <= 2 else path[1:-1] for path in (first, second))
    return _least(graph, one, _line(graph, other))


def distance_from_region(graph: Graph, path: Sequence[int], region: Region) -> float:
    """Least distance of a path, its ends and links included, from the rim of a region; 0 inside."""
    return max(0.0, _least(graph, path, positions(graph.plane, np.array(region.points))) - region.radius)


def inner_distance_from_region(graph: Graph, path: Sequence[int], region: Region) -> float:
    """As `distance_from_region`, for the inner part alone; infinite for a direct link."""
    if len(path) <= 2:
        return math.inf
    return distance_from_region(graph, path[1:-1], region)


def _line(graph: Graph, path: Sequence[int]) -> Floats:
    return graph.positions[list(path)]


def _least(graph: Graph, path: Sequence[int], line: Floats) -> float:
    on = _line(graph, path)
    if len(on) == 1:
        return float(distances_to_line(graph.plane, on, line)[0])
    return float(segments_to_line(graph.plane, on[:-1], on[1:], line).min())
