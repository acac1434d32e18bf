"""Plain searches in small networks find what the compiled kernels find."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import dijkstra, yen

from mangrove.routing.network.generators import random_network
from mangrove.routing.network.graph import Graph, make_graph
from mangrove.routing.paths import plain_search
from mangrove.routing.paths.shortest import SMALL, neighbours_of, trees, walk


@st.composite
def networks(draw: st.DrawFn) -> Graph:
    """Weights are few whole numbers, so that many paths are equally long; some links are out of use."""
    size = draw(st.integers(2, 12))
    links = draw(st.integers(size - 1, min(size * (size - 1) // 2, 3 * size)))
    graph = random_network(size, links, seed=draw(st.integers(0, 10_000)))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    weights = rng.integers(1, 5, links).astype(float)
    weights[rng.random(links) < 0.1] = np.inf
    return make_graph(graph.names, graph.points, graph.ends, weights=weights)


@settings(max_examples=100, deadline=None)
@given(networks())
def test_trees_are_as_short_as_compiled_ones(graph: Graph) -> None:
    compiled, ways = dijkstra(graph.matrix(), directed=True, return_predecessors=True)
    distance, before = trees(graph, range(graph.size))
    np.testing.assert_array_equal(distance, compiled)
    np.testing.assert_array_equal(before, ways)
    for source in range(graph.size):
        for destination in range(graph.size):
            path = walk(before[source], source, destination)
            reached = bool(np.isfinite(compiled[source, destination]))
            assert bool(path) == reached
            if reached:
                assert graph.length(path) == compiled[source, destination]


@settings(max_examples=100, deadline=None)
@given(networks(), st.integers(1, 20))
def test_the_shortest_paths_are_as_short_as_compiled_ones(graph: Graph, k: int) -> None:
    source, destination = 0, graph.size - 1
    compiled = np.sort(yen(graph.matrix(), source, destination, k, directed=True))
    found = plain_search.k_shortest(neighbours_of(graph), source, destination, k)
    assert [graph.length(path) for path in found] == compiled[np.isfinite(compiled)].tolist()
    assert len(set(found)) == len(found)
    for path in found:
        assert (path[0], path[-1]) == (source, destination)
        assert len(set(path)) == len(path)
        assert all(np.isfinite(graph.weights[graph.link(u, v)]) for u, v in pairwise(path))


@pytest.mark.parametrize("size", [SMALL, SMALL + 1])
def test_both_searches_answer_alike(size: int) -> None:
    """A line of nodes has one way; the kernels change with the size and nothing else does."""
    names = [f"n{number:02}" for number in range(size)]
    line = make_graph(names, np.zeros((size, 2)), list(pairwise(range(size))), weights=np.ones(size - 1))
    distance, before = trees(line, [0, 1])
    assert distance.shape == before.shape == (2, size)
    assert distance[0, -1] == size - 1
    assert walk(before[0], 0, size - 1) == tuple(range(size))


def test_nobody_is_reached_from_a_lone_node() -> None:
    near = plain_search.neighbours(3, [(1, 2)], [1.0])
    assert plain_search.tree(near, 0)[1] == [plain_search.UNREACHED] * 3
    assert plain_search.k_shortest(near, 0, 2, 4) == []
    assert plain_search.k_shortest(near, 1, 1, 4) == []
