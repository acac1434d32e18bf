"""Resilient routing layers, the baseline."""

from __future__ import annotations

import numpy as np
import pytest

from mangrove.evaluation.baselines.layers import RoutingLayers, build_layers
from mangrove.routing.network.generators import random_network
from mangrove.routing.network.graph import Graph, make_graph
from mangrove.routing.paths.shortest import trees


def distance_without(graph: Graph, link: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    weights = graph.weights.copy()
    weights[link] = np.inf
    return trees(graph, np.arange(graph.size), weights)[0]


@pytest.fixture(scope="module")
def layered() -> RoutingLayers:
    return build_layers(random_network(32, 64, seed=1))


def test_every_node_is_safe_and_every_link_missing_somewhere(layered: RoutingLayers) -> None:
    graph = layered.graph
    for node in set(range(graph.size)) - layered.unprotected_nodes:
        layers = [layer for layer in layered.layers if node in layer.safe]
        assert layers
        for layer in layers:
            assert int((graph.ends == node).any(axis=1)[layer.links].sum()) == 1
    for link in set(range(graph.links)) - layered.unprotected_links:
        assert any(not layer.links[link] for layer in layered.layers)


def test_paths_after_a_link_failure_avoid_it_and_are_never_too_short(layered: RoutingLayers) -> None:
    graph = layered.graph
    stretched = 0
    for link in range(graph.links):
        shortest = distance_without(graph, link)
        for source in range(0, graph.size, 3):
            for destination in range(graph.size):
                if source == destination or not np.isfinite(shortest[source, destination]):
                    continue
                if link in layered.unprotected_links:
                    continue
                path = layered.path_after_link(source, destination, link)
                assert path[0] == source
                assert path[-1] == destination
                assert link not in graph.path_links(path)
                length = graph.length(path)
                assert length >= shortest[source, destination] - 1e-9
                stretched += length > shortest[source, destination] + 1e-9
    assert stretched > 0


def test_paths_after_a_node_failure_avoid_it(layered: RoutingLayers) -> None:
    graph = layered.graph
    for node in set(range(graph.size)) - layered.unprotected_nodes:
        for source in range(0, graph.size, 5):
            for destination in range(0, graph.size, 3):
                if source == destination or node in (source, destination):
                    continue
                path = layered.path_after_node(source, destination, node)
                assert path[-1] == destination
                assert node not in path


def test_bridges_and_articulation_points_are_named() -> None:
    line = make_graph(list("abc"), [(0, 0), (1, 0), (2, 0)], [(0, 1), (1, 2)])
    layered = build_layers(line)
    assert layered.unprotected_nodes == {1}
    assert layered.unprotected_links == {0, 1}
    assert layered.path_after_link(0, 2, 1) == ()
