"""Failure regions: a disc, or everything within a radius of a line (a cable cut, a storm's track).

A path fails when one of its nodes lies inside (thesis §5.4.2, table 5-1). With `cut_links` a link that
crosses the region fails too, which is the right model when the cable itself lies where the map draws it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from mangrove.routing.network.geography import distances_to_line, positions, segments_to_line
from mangrove.routing.network.graph import Graph

Mask = NDArray[np.bool_]


class Region(msgspec.Struct, frozen=True):
    """All places within `radius` of a line through `points`; one point makes a disc.

    Points and radius are in the units of the graph's plane (kilometres on the geographic one).
    """

    points: tuple[tuple[float, float], ...]
    radius: float

    @classmethod
    def disc(cls, centre: tuple[float, float], radius: float) -> Region:
        """A circular region."""
        return cls((centre,), radius)


def nodes_inside(graph: Graph, region: Region) -> Mask:
    """Which nodes lie inside the region, its rim included."""
    line = positions(graph.plane, np.asarray(region.points))
    return distances_to_line(graph.plane, graph.positions, line) <= region.radius


def links_inside(graph: Graph, region: Region) -> Mask:
    """Which links touch the region with their fibres: straight between the ends where no waypoints are."""
    line = positions(graph.plane, np.asarray(region.points))
    fibres = graph.fibres
    touched = segments_to_line(graph.plane, fibres.starts, fibres.stops, line) <= region.radius
    inside = np.zeros(graph.links, dtype=bool)
    inside[fibres.link[touched]] = True
    return inside


class Damage(msgspec.Struct, frozen=True):
    """What a region takes out of a graph."""

    nodes: Mask
    links: Mask

    def breaks(self, graph: Graph, path: Sequence[int]) -> bool:
        """Whether a path fails."""
        if self.nodes[list(path)].any():
            return True
        return bool(self.links.any() and self.links[graph.path_links(path)].any())

    def surviving_weights(self, graph: Graph) -> NDArray[np.float64]:
        """Link weights with infinity for every link that is gone, or that ends at a node that is gone."""
        gone = self.links | self.nodes[graph.ends].any(axis=1)
        return np.where(gone, np.inf, graph.weights)


def damage(graph: Graph, region: Region, *, cut_links: bool = False) -> Damage:
    """Nodes inside the region and, with `cut_links`, the links that cross it."""
    links = links_inside(graph, region) if cut_links else np.zeros(graph.links, dtype=bool)
    return Damage(nodes_inside(graph, region), links)
