"""Two disjoint paths are found exactly when they exist, and no pair is shorter."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mangrove.routing.network.graph import Graph, NodePath, make_graph
from mangrove.routing.paths.disjoint_pair import disjoint_pair
from mangrove.routing.paths.shortest import k_shortest


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    size = draw(st.integers(3, 6))
    every = list(combinations(range(size), 2))
    ends = sorted(draw(st.sets(st.sampled_from(every), min_size=2)))
    weights = draw(st.lists(st.integers(1, 9), min_size=len(ends), max_size=len(ends)))
    names = [str(node) for node in range(size)]
    points = np.full((size, 2), np.nan)
    return make_graph(names, points, np.array(ends), weights=np.array(weights, dtype=float))


def disjoint(first: NodePath, second: NodePath) -> bool:
    return first != second and not set(first[1:-1]) & set(second[1:-1])


@given(graphs())
def test_a_pair_is_found_when_there_is_one_and_none_is_shorter(graph: Graph) -> None:
    every = k_shortest(graph, 0, 1, 100)
    best = min(
        (graph.length(a) + graph.length(b) for a, b in combinations(every, 2) if disjoint(a, b)),
        default=None,
    )
    pair = disjoint_pair(graph, 0, 1)
    if best is None:
        assert pair is None
    else:
        assert pair is not None
        first, second = pair
        assert disjoint(first, second)
        assert (first[0], first[-1], second[0], second[-1]) == (0, 1, 0, 1)
        assert graph.length(first) <= graph.length(second)
        assert graph.length(first) + graph.length(second) == best
