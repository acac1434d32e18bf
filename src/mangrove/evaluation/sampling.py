"""What the experiments on separated paths draw at random: pairs of brokers, and places that fail."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from mangrove.routing.network.geography import Floats, Plane
from mangrove.routing.network.graph import Graph


def choose_pairs(graph: Graph, overlay: int, pairs: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Random pairs of overlay brokers, which sit at random places on the nearest underlay node."""
    if graph.plane is Plane.EUCLIDEAN:
        places = rng.uniform(graph.points.min(axis=0), graph.points.max(axis=0), (overlay, 2))
        brokers = np.unique(cKDTree(graph.points).query(places)[1])
    else:
        brokers = np.arange(graph.size)
    every = [(int(a), int(b)) for i, a in enumerate(brokers) for b in brokers[i + 1 :]]
    chosen = rng.choice(len(every), size=min(pairs, len(every)), replace=False)
    return [every[index] for index in sorted(chosen)]


def throw_discs(graph: Graph, count: int, rng: np.random.Generator) -> Floats:
    """Centres spread evenly over the plane, or over the part of the sphere that the backbone covers."""
    low, high = graph.points.min(axis=0), graph.points.max(axis=0)
    if graph.plane is Plane.EUCLIDEAN:
        return rng.uniform(low, high, (count, 2))
    sine = np.sin(np.radians([low[0], high[0]]))
    latitude = np.degrees(np.arcsin(rng.uniform(sine[0], sine[1], count)))
    return np.column_stack((latitude, rng.uniform(low[1], high[1], count)))
