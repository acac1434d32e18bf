"""How far a path keeps from a region, along its fibres."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mangrove.routing.network.geography import distances_to_line, positions, segments_to_line
from mangrove.routing.network.graph import Graph
from mangrove.routing.network.regions import Region


def distance_from_region(graph: Graph, path: Sequence[int], region: Region) -> float:
    """Least distance of a path, its ends included, from the rim of a region; 0 inside."""
    places = positions(graph.plane, graph.places(path))
    line = positions(graph.plane, np.array(region.points))
    if len(places) == 1:
        least = float(distances_to_line(graph.plane, places, line)[0])
    else:
        least = float(segments_to_line(graph.plane, places[:-1], places[1:], line).min())
    return max(0.0, least - region.radius)


def inner_distance_from_region(graph: Graph, path: Sequence[int], region: Region) -> float:
    """The same from the first site after the source to the last before the destination; infinite if none."""
    return distance_from_region(graph, path[1:-1], region) if len(path) > 2 else math.inf
