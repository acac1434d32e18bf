"""Separated and resilient paths over random graphs."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mangrove.routing.network.generators import random_network
from mangrove.routing.network.graph import Graph, make_graph
from mangrove.routing.network.proximity import near_share
from mangrove.routing.paths.path_limits import PathLimits
from mangrove.routing.paths.planner import Method, PathRequest, plan_paths
from mangrove.routing.paths.resilience import most_resilient, resiliency
from mangrove.routing.paths.shortest import k_shortest, shortest_within_hops, trees


@st.composite
def networks(draw: st.DrawFn) -> Graph:
    size = draw(st.integers(3, 14))
    links = draw(st.integers(size - 1, min(size * (size - 1) // 2, 3 * size)))
    graph = random_network(size, links, seed=draw(st.integers(0, 10_000)))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    return make_graph(
        graph.names,
        graph.points,
        graph.ends,
        node_failure=rng.uniform(0, 0.5, size),
        edge_failure=rng.uniform(0, 0.5, links),
    )


@settings(max_examples=200, deadline=None)
@given(networks(), st.sampled_from(list(Method)), st.integers(1, 4), st.floats(1, 2000), st.booleans())
def test_plans_are_simple_distinct_paths(
    graph: Graph, method: Method, count: int, separation: float, scaled: bool
) -> None:
    request = PathRequest(method, paths=count, separation=separation, scaled=scaled, k=12)
    plan = plan_paths(graph, 0, graph.size - 1, request)
    assert 1 <= len(plan.paths) <= count
    assert len(set(plan.paths)) == len(plan.paths)
    for path in plan.paths:
        assert (path[0], path[-1]) == (0, graph.size - 1)
        assert len(set(path)) == len(path)
        for u, v in pairwise(path):
            graph.link(u, v)
    assert (len(plan.paths) < count) == bool(plan.warnings)
    assert -1e-9 <= plan.resiliency <= 1 + 1e-9


@settings(max_examples=150, deadline=None)
@given(networks(), st.sampled_from([Method.GAP_DIV, Method.GAP_LOG, Method.DISJOINT]), st.integers(2, 6))
def test_a_warning_is_given_only_when_there_is_no_other_path(
    graph: Graph, method: Method, count: int
) -> None:
    """The penalty methods find every path that exists, up to the number asked for."""
    plan = plan_paths(graph, 0, graph.size - 1, PathRequest(method, paths=count, separation=300.0))
    if plan.warnings:
        assert set(k_shortest(graph, 0, graph.size - 1, len(plan.paths) + 1)) == set(plan.paths)


@settings(max_examples=150, deadline=None)
@given(networks(), st.floats(1.0, 3.0), st.integers(1, 6))
def test_constraints_hold_for_every_path(graph: Graph, slack: float, hops: int) -> None:
    shortest = trees(graph, [0])[0][0, graph.size - 1]
    limits = PathLimits(max_delay=shortest * slack, max_hops=hops)
    within = shortest_within_hops(graph, 0, graph.size - 1, hops)
    assume(within and limits.hold(graph, within))
    for method in Method:
        plan = plan_paths(graph, 0, graph.size - 1, PathRequest(method, separation=200.0, limits=limits))
        assert all(limits.hold(graph, path) for path in plan.paths)


@settings(max_examples=150, deadline=None)
@given(networks(), st.floats(1, 2000))
def test_flat_gap_is_separated_whenever_it_can_be(graph: Graph, separation: float) -> None:
    """If some path has no inner node near the primary, one such is found: a near link outweighs all others.

    With the scaled penalty this does not hold, since a link just within the separation costs next to nothing.
    """
    end = graph.size - 1
    plan = plan_paths(graph, 0, end, PathRequest(Method.GAP_DIV, separation=separation, scaled=False))
    assume(len(plan.paths) == 2)
    primary = plan.paths[0]

    def inner_near(path: tuple[int, ...]) -> bool:
        return len(path) > 2 and near_share(graph, path[1:-1], primary, separation) > 0

    others = [path for path in k_shortest(graph, 0, end, 40) if path != primary]
    if any(not inner_near(path) for path in others):
        assert not inner_near(plan.paths[1])


@settings(max_examples=150, deadline=None)
@given(networks(), st.integers(1, 3))
def test_branch_and_cut_is_exact(graph: Graph, count: int) -> None:
    candidates = k_shortest(graph, 0, graph.size - 1, 7)
    best = max(resiliency(graph, chosen) for chosen in combinations(candidates, min(count, len(candidates))))
    found = most_resilient(graph, 0, graph.size - 1, count, k=7)
    assert found.resiliency == pytest.approx(best, abs=1e-12)


@settings(max_examples=100, deadline=None)
@given(networks(), st.integers(1, 4))
def test_more_paths_are_never_less_resilient(graph: Graph, count: int) -> None:
    end = graph.size - 1
    fewer = plan_paths(graph, 0, end, PathRequest(Method.RESILIENT, paths=count, k=8))
    more = plan_paths(graph, 0, end, PathRequest(Method.RESILIENT, paths=count + 1, k=8))
    assert more.resiliency >= fewer.resiliency - 1e-12
    assert resiliency(graph, fewer.paths[:1]) <= fewer.resiliency + 1e-12
