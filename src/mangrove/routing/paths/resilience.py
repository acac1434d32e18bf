"""Resiliency of a set of parallel paths, and the best set there is (Harmony §3.2).

The resiliency of a multipath is the probability that at least one of its paths has all of its nodes and
links up. Paths share nodes and links, so it is summed by inclusion-exclusion over the unions of their
elements.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from mangrove.errors import InputError
from mangrove.routing.network.geography import Floats
from mangrove.routing.network.graph import Graph, NodePath
from mangrove.routing.paths.path_limits import FREE, PathLimits
from mangrove.routing.paths.shortest import k_shortest

MAX_PATHS = 12  # inclusion-exclusion has 2^n terms


def resiliency(graph: Graph, paths: Sequence[NodePath]) -> float:
    """Probability that at least one of the paths is up; nodes and links fail independently."""
    if not paths:
        return 0.0
    union = _Union(graph)
    for path in paths[:-1]:
        union = union.with_path(path, summed=False)
    return union.with_path(paths[-1]).probability


def with_ends_up(graph: Graph, source: int, destination: int) -> Graph:
    """The graph on the condition that both ends are up.

    While one of them is down there is nobody to send or to receive, whatever the paths: what is promised
    between two sites is promised for the time in which both are there.
    """
    failure = graph.node_failure.copy()
    failure[[source, destination]] = 0.0
    return graph.with_values(node_failure=failure)


class BestSet(msgspec.Struct, frozen=True):
    """The most resilient set of paths, with how the search went."""

    paths: tuple[NodePath, ...]  # in order of delay
    resiliency: float
    candidates: int  # paths within the limits
    sets_examined: int


def most_resilient(
    graph: Graph, source: int, destination: int, count: int, *, k: int, limits: PathLimits = FREE
) -> BestSet:
    """The most resilient set of `count` paths out of the `k` shortest within the limits.

    Fewer paths are returned when fewer exist. The search is exact: a set is cut when even its upper bound
    is not better than the best found. Adding a path never lowers the resiliency (Harmony's observation),
    and what a path adds only shrinks as the set grows, so the bound is the present resiliency plus the
    largest gains still open.
    """
    if not 1 <= count <= MAX_PATHS:
        raise InputError(f"a set has 1 to {MAX_PATHS} paths, not {count}")
    candidates = [path for path in k_shortest(graph, source, destination, k) if limits.hold(graph, path)]
    search = _Search(graph, candidates, min(count, len(candidates)))
    search.descend(_Union(graph), (), tuple(range(len(candidates))))
    chosen = tuple(candidates[i] for i in sorted(search.best))
    return BestSet(chosen, max(search.value, 0.0), len(candidates), search.examined)


class _Union(msgspec.Struct, frozen=True):
    """Inclusion-exclusion terms of a set of paths: the elements of each sub-union, and its sign."""

    graph: Graph
    terms: NDArray[np.bool_] = msgspec.field(default_factory=lambda: np.zeros((0, 0), dtype=bool))
    signs: Floats = msgspec.field(default_factory=lambda: np.zeros(0))
    probability: float = 0.0

    def with_path(self, path: NodePath, *, summed: bool = True) -> _Union:
        """With one path more; the probability is left out where it is not `summed`."""
        graph = self.graph
        elements = np.zeros((1, graph.size + graph.links), dtype=bool)
        elements[0, list(path)] = True
        elements[0, [graph.size + link for link in graph.path_links(path)]] = True
        terms, signs = elements, np.ones(1)
        if len(self.signs):
            terms = np.concatenate((self.terms, elements, self.terms | elements))
            signs = np.concatenate((self.signs, signs, -self.signs))
        if not summed:
            return _Union(graph, terms, signs)
        up = 1.0 - np.concatenate((graph.node_failure, graph.edge_failure))
        used = terms.any(axis=0)
        probability = float(signs @ np.where(terms[:, used], up[used], 1.0).prod(axis=1))
        return _Union(graph, terms, signs, probability)


class _Search(msgspec.Struct):
    graph: Graph
    candidates: list[NodePath]
    count: int
    best: tuple[int, ...] = ()
    value: float = -1.0
    examined: int = 0

    def descend(self, union: _Union, chosen: tuple[int, ...], open_: tuple[int, ...]) -> None:
        """Branch on which of the open candidates joins the chosen ones next."""
        self.examined += 1
        missing = self.count - len(chosen)
        if missing == 0:
            if union.probability > self.value:
                self.best, self.value = chosen, union.probability
            return
        grown = {index: union.with_path(self.candidates[index]) for index in open_}
        gain = {index: grown[index].probability - union.probability for index in open_}
        # Greatest gain first, so that a good set is found early; equal gains in order of delay.
        order = sorted(open_, key=lambda index: (-gain[index], index))
        for position, index in enumerate(order):
            rest = order[position:]
            if len(rest) < missing:
                return
            bound = union.probability + sum(gain[other] for other in rest[:missing])
            if bound <= self.value + 1e-15:
                return  # later branches have smaller gains still
            self.descend(grown[index], (*chosen, index), tuple(rest[1:]))
