"""The fewest paths that reach a probability, against the states of all links and sites, one by one."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mangrove.routing.network.generators import random_network
from mangrove.routing.network.graph import Graph, NodePath, make_graph
from mangrove.routing.paths.resilience import resiliency, with_ends_up
from mangrove.routing.paths.shortest import k_shortest
from mangrove.routing.paths.sufficient_set import sufficient_set


@st.composite
def small_networks(draw: st.DrawFn) -> Graph:
    size = draw(st.integers(3, 6))
    links = draw(st.integers(size - 1, min(size * (size - 1) // 2, 9)))
    graph = random_network(size, links, seed=draw(st.integers(0, 10_000)))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    # Coarse probabilities, zero among them, so that sets are equal now and then.
    chances = np.array([0.0, 0.01, 0.05, 0.2, 0.5])
    return make_graph(
        graph.names,
        graph.points,
        graph.ends,
        node_failure=rng.choice(chances, size),
        edge_failure=rng.choice(chances, links),
    )


def up_by_enumeration(graph: Graph, sets: list[tuple[NodePath, ...]]) -> list[float]:
    """Probability that a path of each set is up, over every state of every link and inner site."""
    source, destination = 0, graph.size - 1
    elements = [("n", v) for v in range(graph.size) if v not in (source, destination)]
    elements += [("l", e) for e in range(graph.links)]
    down = [graph.node_failure[i] if kind == "n" else graph.edge_failure[i] for kind, i in elements]
    states = (np.arange(2 ** len(elements))[:, None] >> np.arange(len(elements))) & 1
    weight = np.where(states == 1, 1 - np.array(down), down).prod(axis=1)
    place = {element: position for position, element in enumerate(elements)}
    alive: dict[NodePath, Any] = {}
    for path in {path for paths in sets for path in paths}:
        needs = [place["n", v] for v in path[1:-1]] + [place["l", e] for e in graph.path_links(path)]
        alive[path] = states[:, needs].all(axis=1)
    return [
        float(weight[np.logical_or.reduce([alive[path] for path in paths])].sum()) if paths else 0.0
        for paths in sets
    ]


@settings(max_examples=150, deadline=None)
@given(small_networks(), st.sampled_from([0.3, 0.8, 0.9, 0.99, 0.999, 0.99999]), st.integers(1, 2))
def test_the_set_reaches_what_is_wanted_and_no_smaller_one_does(
    graph: Graph, wanted: float, least: int
) -> None:
    given_ends = with_ends_up(graph, 0, graph.size - 1)
    candidates = k_shortest(graph, 0, graph.size - 1, 6)
    most = max(4, least)
    found = sufficient_set(given_ends, candidates, wanted, least=least, most=most)
    sizes = range(least, min(most, len(candidates)) + 1)
    sets = [chosen for size in sizes for chosen in combinations(candidates, size)]
    exact = dict(zip(sets, up_by_enumeration(graph, sets), strict=True))
    enough = {chosen: value for chosen, value in exact.items() if value >= wanted - 1e-12}
    assert found.suffices == bool(enough)
    if enough:
        fewest = min(map(len, enough))
        best = max(value for chosen, value in enough.items() if len(chosen) == fewest)
        assert len(found.paths) == fewest
        assert (
            exact[found.paths] == pytest.approx(found.resiliency, abs=1e-10) == pytest.approx(best, abs=1e-10)
        )
        fastest = min(
            sum(map(graph.length, chosen))
            for chosen, value in enough.items()
            if len(chosen) == fewest and value > best - 1e-13
        )
        assert sum(map(graph.length, found.paths)) <= fastest + 1e-9
    elif exact:
        assert found.resiliency == pytest.approx(max(exact.values()), abs=1e-10)
        assert exact[found.paths] == pytest.approx(found.resiliency, abs=1e-10)
    else:
        assert len(found.paths) == len(candidates) < least


@settings(max_examples=100, deadline=None)
@given(small_networks(), st.sampled_from([0.8, 0.99]), st.integers(0, 2**32 - 1))
def test_paths_that_may_not_be_together_are_not(graph: Graph, wanted: float, seed: int) -> None:
    candidates = k_shortest(graph, 0, graph.size - 1, 6)
    rng = np.random.default_rng(seed)
    apart = rng.random((6, 6)) < 0.6
    apart |= apart.T

    def together(first: int, second: int) -> bool:
        return bool(apart[first, second])

    found = sufficient_set(graph, candidates, wanted, most=3, together=together)
    allowed = [
        chosen
        for size in (1, 2, 3)
        for chosen in combinations(range(len(candidates)), size)
        if all(together(*pair) for pair in combinations(chosen, 2))
    ]
    value = {chosen: resiliency(graph, [candidates[i] for i in chosen]) for chosen in allowed}
    enough = [chosen for chosen in allowed if value[chosen] >= wanted - 1e-12]
    chosen = tuple(sorted(candidates.index(path) for path in found.paths))
    assert chosen in allowed
    assert found.suffices == bool(enough)
    if enough:
        assert len(chosen) == min(map(len, enough))
    else:
        assert found.resiliency == pytest.approx(max(value.values()), abs=1e-10)


def test_a_path_that_adds_nothing_is_left_out_when_nothing_suffices() -> None:
    """Both paths need the one link that fails: a second path would cost and give nothing."""
    graph = make_graph(
        ["s", "m", "a", "t"],
        [(0, 0), (1, 0), (2, 1), (3, 0)],
        [(0, 1), (1, 3), (1, 2), (2, 3)],
        edge_failure=np.array([0.1, 0.0, 0.0, 0.0]),
    )
    found = sufficient_set(graph, k_shortest(graph, 0, 3, 5), 0.99, most=3)
    assert not found.suffices
    assert found.paths == ((0, 1, 3),)
    assert found.resiliency == pytest.approx(0.9)
    forced = sufficient_set(graph, k_shortest(graph, 0, 3, 5), 0.99, least=2, most=3)
    assert len(forced.paths) == 2
