"""Forwarding: which neighbour brings a frame nearer to each of its destinations.

`Forwarding` is the interface that gateways use for every frame. `ShortestPaths` implements it for a fixed
topology; tables that follow failures implement the same interface.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

Hop = tuple[str, int]
"""A neighbour, and the mask of destinations that are reached through it."""


class Forwarding(Protocol):
    """Splits a set of destinations by next hop."""

    def split(self, destinations: int) -> tuple[Hop, ...]:
        """Next hops for a mask of destinations; destinations that cannot be reached are in none of them."""

    def reachable(self) -> int:
        """Mask of the destinations that can be reached."""


class ShortestPaths:
    """Hop-by-hop forwarding along shortest paths of a fixed topology.

    Loops cannot occur: the next hop n for destination d satisfies w(self, n) + dist(n, d) = dist(self, d)
    with w > 0, so the distance to d falls strictly at every hop, whatever the tie-breaking. Ties go to the
    first neighbour in the agreed order, so that all gateways predict each other's choices.
    """

    def __init__(self, owner: str, order: Sequence[str], links: Iterable[tuple[str, str, float]]) -> None:
        index = {name: position for position, name in enumerate(order)}
        size = len(order)
        weights = np.full((size, size), np.inf)
        for first, second, weight in links:
            if weight <= 0:
                raise ValueError(f"link {first}-{second} has weight {weight}; weights must be positive")
            a, b = index[first], index[second]
            weights[a, b] = weights[b, a] = min(weight, weights[a, b])
        me = index[owner]
        linked = np.isfinite(weights)
        distances = dijkstra(csr_array(np.where(linked, weights, 0.0)), directed=False)
        neighbours = [other for other in range(size) if linked[me, other]]
        via: dict[int, int] = {}
        for destination in range(size):
            if destination == me or not np.isfinite(distances[me, destination]):
                continue
            best = min(neighbours, key=lambda n: (weights[me, n] + distances[n, destination], n))
            via[best] = via.get(best, 0) | 1 << destination
        self._via = [(order[neighbour], mask) for neighbour, mask in sorted(via.items())]
        self._reachable = sum(mask for _, mask in self._via)
        self._splits: dict[int, tuple[Hop, ...]] = {}

    def split(self, destinations: int) -> tuple[Hop, ...]:
        """Next hops for a mask of destinations."""
        hops = self._splits.get(destinations)
        if hops is None:
            hops = tuple((name, destinations & mask) for name, mask in self._via if destinations & mask)
            if len(self._splits) < 4096:
                self._splits[destinations] = hops
        return hops

    def reachable(self) -> int:
        """Mask of the destinations that can be reached."""
        return self._reachable
