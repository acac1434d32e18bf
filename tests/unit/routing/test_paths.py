"""The other methods, and the planner that offers them all."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from mangrove.errors import InputError
from mangrove.routing.network.generators import waxman
from mangrove.routing.network.graph import Graph, NoPathError, make_graph
from mangrove.routing.network.proximity import near_share
from mangrove.routing.paths.disjoint import disjoint_path
from mangrove.routing.paths.ksp import least_proximate
from mangrove.routing.paths.path_limits import PathLimits
from mangrove.routing.paths.planner import Method, PathRequest, default_separation, plan_paths
from mangrove.routing.paths.resilience import most_resilient, resiliency
from mangrove.routing.paths.shortest import k_shortest, shortest_path, shortest_within_hops


def ladder() -> Graph:
    """Two rails of four nodes, with a rung at each node; a0 to a3 along the upper rail is shortest."""
    points = [(x, y) for y in (0.0, 3.0) for x in (0.0, 1.0, 2.0, 3.0)]
    ends = [(0, 1), (1, 2), (2, 3), (4, 5), (5, 6), (6, 7), (0, 4), (1, 5), (2, 6), (3, 7)]
    return make_graph(["a0", "a1", "a2", "a3", "b0", "b1", "b2", "b3"], points, ends)


def failing(graph: Graph, nodes: float, links: float) -> Graph:
    return make_graph(
        graph.names,
        graph.points,
        graph.ends,
        weights=graph.weights,
        node_failure=np.full(graph.size, nodes),
        edge_failure=np.full(graph.links, links),
    )


def resiliency_by_enumeration(graph: Graph, paths: list[tuple[int, ...]]) -> float:
    """Every state of every element that the paths use: slow, and certainly right."""
    elements = sorted(
        {("n", v) for p in paths for v in p} | {("l", e) for p in paths for e in graph.path_links(p)}
    )
    failure = [graph.node_failure[i] if kind == "n" else graph.edge_failure[i] for kind, i in elements]
    needs = [{("n", v) for v in p} | {("l", e) for e in graph.path_links(p)} for p in paths]
    total = 0.0
    for state in range(2 ** len(elements)):
        up = {element for bit, element in enumerate(elements) if state >> bit & 1}
        if any(need <= up for need in needs):
            total += float(np.prod([1 - f if e in up else f for e, f in zip(elements, failure, strict=True)]))
    return total


def test_k_shortest_are_simple_and_in_order() -> None:
    graph = ladder()
    paths = k_shortest(graph, 0, 3, 20)
    lengths = [graph.length(path) for path in paths]
    assert lengths == sorted(lengths)
    assert len(set(paths)) == len(paths) == 8  # all simple paths that there are
    assert all(len(set(path)) == len(path) for path in paths)


def test_ksp_takes_the_least_proximate_of_the_k_shortest() -> None:
    graph = ladder()
    primary = shortest_path(graph, 0, 3)
    found = least_proximate(graph, primary, 1, k=5, separation=2.0)
    others = [path for path in k_shortest(graph, 0, 3, 5) if path != primary]
    best = min(near_share(graph, primary, path, 2.0) for path in others)
    assert near_share(graph, primary, found[0], 2.0) == best
    assert least_proximate(graph, primary, 1, k=1, separation=2.0) == []


def test_disjoint_shares_nothing_when_it_can() -> None:
    graph = ladder()
    path = disjoint_path(graph, [(0, 1, 2, 3)], separation=2.0)
    assert path == (0, 4, 5, 6, 7, 3)


def test_disjoint_shares_only_the_bridge() -> None:
    graph = make_graph(
        list("sabxyt"),
        [(0, 0), (1, 1), (1, -1), (2, 0), (3, 0), (4, 0)],
        [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4), (4, 5)],
    )
    primary = shortest_path(graph, 0, 5)
    path = disjoint_path(graph, [primary], separation=0.1)
    assert path != primary
    assert set(graph.path_links(path)) & set(graph.path_links(primary)) == {4, 5}


def test_hop_limit_is_exact() -> None:
    graph = waxman(80, 3, seed=4)
    for hops in (2, 3, 4):
        path = shortest_within_hops(graph, 0, 60, hops)
        shorter = [p for p in k_shortest(graph, 0, 60, 400) if len(p) - 1 <= hops]
        assert (path == shorter[0]) if shorter else (not path or len(path) - 1 <= hops)


def test_resiliency_of_one_path_is_the_product() -> None:
    graph = failing(ladder(), 0.01, 0.02)
    assert resiliency(graph, [(0, 1, 2, 3)]) == pytest.approx(0.99**4 * 0.98**3)


@pytest.mark.parametrize("paths", [[(0, 1, 2, 3), (0, 1, 5, 6, 2, 3)], [(0, 1, 2, 3), (0, 4, 5, 6, 7, 3)]])
def test_resiliency_equals_enumeration(paths: list[tuple[int, ...]]) -> None:
    graph = failing(ladder(), 0.1, 0.2)
    assert resiliency(graph, paths) == pytest.approx(resiliency_by_enumeration(graph, paths), abs=1e-12)


def test_resiliency_with_certain_failure() -> None:
    graph = failing(ladder(), 0.0, 1.0)
    assert resiliency(graph, [(0, 1, 2, 3), (0, 4, 5, 6, 7, 3)]) == 0.0


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_branch_and_cut_finds_the_best_set(count: int) -> None:
    rng = np.random.default_rng(count)
    graph = ladder()
    graph = make_graph(
        graph.names,
        graph.points,
        graph.ends,
        weights=graph.weights,
        node_failure=rng.uniform(0, 0.3, graph.size),
        edge_failure=rng.uniform(0, 0.3, graph.links),
    )
    found = most_resilient(graph, 0, 3, count, k=8)
    candidates = k_shortest(graph, 0, 3, 8)
    best = max(resiliency(graph, list(paths)) for paths in combinations(candidates, count))
    assert found.resiliency == pytest.approx(best, abs=1e-12)
    assert resiliency(graph, found.paths) == pytest.approx(best, abs=1e-12)


def test_best_pair_may_leave_out_the_best_path() -> None:
    """s-a-b-t is the most resilient path, but shares a link with each of the two that are best together."""
    graph = make_graph(
        list("stabxy"),
        np.zeros((6, 2)),
        [(0, 2), (2, 3), (1, 3), (2, 4), (1, 4), (0, 5), (3, 5)],
        weights=np.ones(7),
        edge_failure=np.array([0.1, 0.0, 0.1, 0.11, 0.0, 0.11, 0.0]),
    )
    best = most_resilient(graph, 0, 1, 1, k=3)
    assert best.paths == ((0, 2, 3, 1),)
    pair = most_resilient(graph, 0, 1, 2, k=3)
    assert set(pair.paths) == {(0, 2, 4, 1), (0, 5, 3, 1)}
    assert pair.resiliency == pytest.approx(1 - (1 - 0.9 * 0.89) ** 2)


def test_branch_and_cut_cuts() -> None:
    """Of the 4845 sets of four among twenty paths, few are looked at."""
    graph = failing(waxman(60, 3, seed=1), 0.02, 0.05)
    assert most_resilient(graph, 0, 40, 4, k=20).sets_examined < 1500


def test_resilient_keeps_within_the_delay() -> None:
    graph = failing(ladder(), 0.01, 0.02)
    found = most_resilient(graph, 0, 3, 2, k=10, limits=PathLimits(max_delay=8.9))
    assert found.paths == ((0, 1, 2, 3),)


@pytest.mark.parametrize("method", list(Method))
def test_every_method_plans(method: Method) -> None:
    graph = failing(ladder(), 0.01, 0.02)
    plan = plan_paths(graph, 0, 3, PathRequest(method, separation=2.0))
    assert len(plan.paths) == 2
    assert plan.paths[0][0] == plan.paths[1][0] == 0
    assert plan.paths[0][-1] == plan.paths[1][-1] == 3
    assert plan.paths[0] != plan.paths[1]
    assert plan.resiliency == pytest.approx(resiliency(graph, plan.paths))
    assert plan.warnings == ()


@pytest.mark.parametrize("method", list(Method))
def test_more_paths_than_exist_gives_those_that_do_with_a_warning(method: Method) -> None:
    triangle = make_graph(list("abc"), [(0, 0), (1, 0), (0, 1)], [(0, 1), (0, 2), (1, 2)])
    plan = plan_paths(triangle, 0, 1, PathRequest(method, paths=5, separation=1.0))
    assert set(plan.paths) == {(0, 1), (0, 2, 1)}
    assert "5 paths" in plan.warnings[0]
    assert "2 found" in plan.warnings[0]


@pytest.mark.parametrize("method", list(Method))
def test_single_path_only(method: Method) -> None:
    line = make_graph(list("abc"), [(0, 0), (1, 0), (2, 0)], [(0, 1), (1, 2)])
    plan = plan_paths(line, 0, 2, PathRequest(method, separation=1.0))
    assert plan.paths == ((0, 1, 2),)
    assert plan.proximity is None
    assert plan.warnings


def test_disconnected_pair_is_a_negative_answer() -> None:
    graph = make_graph(list("abcd"), [(0, 0), (1, 0), (5, 0), (6, 0)], [(0, 1), (2, 3)])
    with pytest.raises(NoPathError, match="no path from 'a' to 'd'") as caught:
        plan_paths(graph, 0, 3, PathRequest())
    assert caught.value.exit_code == 1


def test_constraints_that_nothing_meets_say_what_is_shortest() -> None:
    with pytest.raises(NoPathError, match="shortest has delay 3 and 3 hops"):
        plan_paths(ladder(), 0, 3, PathRequest(limits=PathLimits(max_delay=2.5)))
    with pytest.raises(NoPathError, match="maximum hops 2"):
        plan_paths(ladder(), 0, 3, PathRequest(limits=PathLimits(max_hops=2)))


def test_bad_requests() -> None:
    graph = ladder()
    with pytest.raises(InputError, match="same node"):
        plan_paths(graph, 1, 1, PathRequest())
    with pytest.raises(InputError):
        PathRequest(paths=0)
    with pytest.raises(InputError):
        PathRequest(k=0)
    with pytest.raises(InputError):
        PathLimits(max_delay=-1)
    with pytest.raises(InputError):
        PathLimits(max_hops=0)
    with pytest.raises(InputError, match="primary"):
        plan_paths(graph, 0, 3, PathRequest(), primary=(0, 1))


def test_given_primary_is_kept() -> None:
    plan = plan_paths(ladder(), 0, 3, PathRequest(separation=2.0), primary=(0, 4, 5, 6, 7, 3))
    assert plan.paths == ((0, 4, 5, 6, 7, 3), (0, 1, 2, 3))


def test_without_places_only_what_needs_none() -> None:
    graph = make_graph(
        list("abc"), [(np.nan, np.nan)] * 3, [(0, 1), (0, 2), (1, 2)], weights=np.array([1.0, 1.0, 1.0])
    )
    for method in (Method.DISJOINT, Method.RESILIENT):
        assert len(plan_paths(graph, 0, 1, PathRequest(method)).paths) == 2
    with pytest.raises(InputError, match="no place: a, b, c"):
        plan_paths(graph, 0, 1, PathRequest(Method.GAP_DIV))


@pytest.mark.parametrize("method", list(Method))
def test_a_node_that_no_link_leads_to_needs_no_place(method: Method) -> None:
    """Nothing that is planned depends on it: a federation keeps the numbers of those who have left."""
    graph, nowhere = ladder(), (np.nan, np.nan)
    more = make_graph([*graph.names, "gone"], [*map(tuple, graph.points), nowhere], graph.ends)
    assert (graph.unplaced, more.unplaced) == ((), ())
    assert default_separation(more) == default_separation(graph)
    for separation in (None, 2.0):
        request = PathRequest(method, separation=separation)
        assert plan_paths(more, 0, 3, request) == plan_paths(graph, 0, 3, request)
    linked = make_graph(more.names, more.points, [*map(tuple, graph.ends), (7, 8)], weights=np.ones(11))
    assert linked.unplaced == ("gone",)
    with pytest.raises(InputError, match="no place: gone"):
        plan_paths(linked, 0, 3, PathRequest(Method.GAP_DIV))


def test_default_separation_is_the_thesis_proportion() -> None:
    square = make_graph(list("abcd"), [(0, 0), (100, 0), (100, 100), (0, 100)], [(0, 1), (1, 2), (2, 3)])
    assert default_separation(square) == pytest.approx(20)
