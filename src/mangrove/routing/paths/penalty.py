"""Search under penalties, shared by the methods that push a path away from others.

The penalty starts at W0, the sum of all weights, and is relaxed until it is too small to matter (§5.3.3).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from mangrove.routing.network.geography import Floats
from mangrove.routing.network.graph import Graph, NodePath
from mangrove.routing.network.proximity import near_share
from mangrove.routing.paths.path_limits import PathLimits
from mangrove.routing.paths.plain_search import tree
from mangrove.routing.paths.shortest import SMALL, k_shortest, neighbours_of, shortest_within_hops, walk

_NEGLIGIBLE = 1e-3  # of the mean weight: a penalty below this changes no path worth speaking of (T of §5.3.3)
_LAST_RESORT = 16  # shortest paths looked at when no penalty leads to an alternative within the limits


_TINY_LINKS = 12
_FEW = 12
"""In a network of so few links, all paths are looked at if there are no more than this."""


class Relaxation(Enum):
    """How the penalty falls from one search to the next."""

    DIVIDE = "div"
    LOGARITHM = "log"


def penalties(graph: Graph, relaxation: Relaxation, divisor: float) -> Iterator[float]:
    """W0 and its relaxations, down to what is negligible.

    The logarithm of a penalty depends on the unit of the weights; that is the thesis's definition.
    """
    penalty = float(graph.weights.sum())
    floor = _NEGLIGIBLE * penalty / max(graph.links, 1)
    yield penalty
    while True:
        if relaxation is Relaxation.DIVIDE:
            penalty /= divisor
        else:
            penalty = math.log(penalty) if penalty > 0 else 0.0
        if penalty <= floor:
            return
        yield penalty


class PenalisedSearch:
    """Repeated shortest-path searches between two nodes of one graph under changing weights."""

    def __init__(self, graph: Graph, source: int, destination: int, limits: PathLimits) -> None:
        self._graph = graph
        self._source, self._destination = source, destination
        self._limits = limits
        self._matrix = graph.matrix() if graph.size > SMALL else None

    def path(self, weights: Floats) -> NodePath:
        """Shortest path under `weights`; within the hops allowed when the plain search has too many."""
        path = walk(self._before(weights), self._source, self._destination)
        limit = self._limits.max_hops
        if limit is not None and len(path) - 1 > limit:
            return shortest_within_hops(self._graph, self._source, self._destination, limit, weights)
        return path

    def _before(self, weights: Floats) -> Sequence[int] | NDArray[np.int32]:
        if self._matrix is None:
            return tree(neighbours_of(self._graph, weights), self._source)[1]
        from scipy.sparse.csgraph import dijkstra

        # The same matrix for every search: making one costs about as much as a search.
        self._matrix.data[:] = weights[self._graph.arcs.link]
        _, before = dijkstra(self._matrix, directed=True, indices=[self._source], return_predecessors=True)
        row: NDArray[np.int32] = before[0]
        return row

    def hopeless(self, avoid: Sequence[NodePath]) -> bool:
        """Whether it is seen at once, in a tiny network, that no path is left to be found."""
        if self._graph.links > _TINY_LINKS:
            return False
        paths = self._shortest(_FEW)
        return len(paths) < _FEW and not any(self.acceptable(path, avoid) for path in paths)

    def acceptable(self, path: NodePath, avoid: Sequence[NodePath]) -> bool:
        """Whether a path is there, is not one of those to avoid, and keeps within the limits."""
        return bool(path) and path not in avoid and self._limits.hold(self._graph, path)

    def _shortest(self, k: int) -> list[NodePath]:
        return k_shortest(self._graph, self._source, self._destination, k)

    def any_other(self, avoid: Sequence[NodePath], share: Floats, separation: float) -> NodePath:
        """A path other than those to avoid, when the penalties alone led to none.

        First one that shares as few links with them as possible: a link in common outweighs all penalties
        together, so finding a path of `avoid` again means that every other path is made of their links.
        Then the least near of the shortest few, which may keep within a delay that a disjoint path exceeds.
        """
        graph = self._graph
        weights = graph.weights + share * float(graph.weights.sum())
        everything = float(weights.sum()) + 1.0
        for path in avoid:
            weights[graph.path_links(path)] += everything
        path = self.path(weights)
        if self.acceptable(path, avoid):
            return path
        # The next shortest path tells at once, and cheaply, when no other path is short enough.
        following = [path for path in self._shortest(len(avoid) + 1) if path not in avoid]
        if not following or not self._limits.allow_length(graph.length(following[0])):
            return ()
        shortest = self._shortest(len(avoid) + _LAST_RESORT)
        return min(
            (path for path in shortest if self.acceptable(path, avoid)),
            key=lambda path: max(near_share(graph, known, path, separation) for known in avoid),
            default=(),
        )
