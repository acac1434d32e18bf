"""Fibres with waypoints: where disasters, proximity and maps find them, and how far paths are apart."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.kit.engines import federation

from mangrove.config import parse_federation
from mangrove.errors import InvalidDocumentError
from mangrove.evaluation.drawings.maps import draw_disaster
from mangrove.overlay.network.live_map import LiveMap
from mangrove.routing.failover.colours import canonical
from mangrove.routing.network.geography import EARTH_RADIUS_KM, Plane, distances, positions
from mangrove.routing.network.graph import Graph, make_graph
from mangrove.routing.network.proximity import near_share, separation
from mangrove.routing.network.regions import Region, damage, links_inside
from mangrove.routing.network.topology import (
    graph_of_federation,
    parse_topology,
    read_topology,
    topology_document,
)
from mangrove.routing.paths.disaster import all_pairs, assess
from mangrove.routing.paths.gap import GapOptions, nearness
from mangrove.routing.paths.planner import PathRequest

DEGREE_KM = EARTH_RADIUS_KM * math.pi / 180


def detour() -> Graph:
    """West and east on the equator; their fibre goes by the north, and a site lies in the south."""
    return make_graph(
        ["west", "east", "south"],
        [(0, 0), (0, 10), (-15, 5)],
        [(1, 0), (0, 2), (1, 2)],
        plane=Plane.GEO,
        via=[((8, 10), (8, 0)), (), ()],  # from east to west
    )


def test_a_disaster_finds_the_fibre_where_it_lies() -> None:
    graph = detour()
    north, equator = Region.disc((8, 5), 150), Region.disc((0, 5), 150)
    assert links_inside(graph, north).tolist() == [True, False, False]
    assert links_inside(graph, equator).tolist() == [False, False, False]
    assert damage(graph, north, cut_links=True).breaks(graph, (0, 1))
    report = assess(graph, north, all_pairs(graph), PathRequest(), cut_links=True)
    assert [entry.fate.value for entry in report.fates] == ["saved"]


def test_a_link_without_a_weight_weighs_the_length_of_its_fibre() -> None:
    graph = detour()
    assert graph.weights[0] == pytest.approx((8 + 8 + 10 * math.cos(math.radians(8))) * DEGREE_KM, rel=0.01)
    assert graph.weights[1] == pytest.approx(math.sqrt(250) * DEGREE_KM, rel=0.01)


def test_waypoints_keep_their_direction_through_every_arrangement() -> None:
    graph = detour()
    assert graph.via[0] == ((8, 0), (8, 10))  # from the smaller end
    assert graph.places((1, 0)).tolist() == [[0, 10], [8, 10], [8, 0], [0, 0]]
    ordered = canonical(graph)
    path = ordered.indices(("east", "west"))
    assert ordered.places(path).tolist() == [[0, 10], [8, 10], [8, 0], [0, 0]]
    again = read_topology(topology_document(graph))
    assert again.places(again.indices(("east", "west"))).tolist() == graph.places((1, 0)).tolist()


def test_the_fibres_of_a_federation_are_those_of_its_graph() -> None:
    text = """
federation: f
domains:
  b: {location: [0, 0]}
  a: {location: [0, 10]}
links:
  - {between: [b, a], via: [[3, 0], [3, 10]]}
"""
    read = parse_federation(text, "test").federation
    assert read is not None
    graph = graph_of_federation(read)
    assert graph.places(graph.indices(("b", "a"))).tolist() == [[0, 0], [3, 0], [3, 10], [0, 10]]
    live = LiveMap(read, "a").live_graph()
    assert live.places(live.indices(("b", "a"))).tolist() == [[0, 0], [3, 0], [3, 10], [0, 10]]
    plain = graph_of_federation(federation(("a", "b")))
    assert not plain.has_waypoints


def test_waypoints_make_paths_near() -> None:
    """The fibre of the direct link passes by the site of the other path."""
    points = [(0.0, 0.0), (0.0, 10.0), (5.0, 5.0)]
    links = [(0, 1), (0, 2), (2, 1)]
    straight = make_graph(["s", "t", "x"], points, links)
    bent = make_graph(["s", "t", "x"], points, links, via=[((4.5, 5.0),), (), ()])
    options = GapOptions(separation=1.0)
    assert nearness(straight, [(0, 2, 1)], options)[0] == 0.0
    assert nearness(bent, [(0, 2, 1)], options)[0] == pytest.approx(0.5)
    assert near_share(straight, (0, 2, 1), (0, 1), 1.0) == pytest.approx(2 / 3)
    assert near_share(bent, (0, 2, 1), (0, 1), 1.0) == 1.0
    assert separation(straight, (0, 2, 1), (0, 1)) == pytest.approx(5.0)
    assert separation(bent, (0, 2, 1), (0, 1)) == pytest.approx(0.5)


def test_separation_leaves_common_ends_out() -> None:
    graph = make_graph(
        ["s", "t", "a", "b", "far"],
        [(0, 0), (10, 0), (5, 3), (5, -3), (5, 20)],
        [(0, 2), (2, 1), (0, 3), (3, 1), (0, 1), (0, 4), (4, 1)],
    )
    assert separation(graph, (0, 2, 1), (0, 3, 1)) == pytest.approx(6)
    assert separation(graph, (0, 2, 1), (0, 1)) == pytest.approx(3)
    assert separation(graph, (0, 2, 1), (0, 4, 1)) == pytest.approx(17)
    assert separation(graph, (0, 1), (0, 1)) == 0
    assert separation(graph, (0, 2, 1), (0, 2, 1)) == 0
    # Only the source is common: b is compared with the fibre from a to t.
    assert separation(graph, (0, 3), (0, 2, 1)) == pytest.approx(30 / math.sqrt(34))
    assert separation(graph, (0, 3), (0, 3, 1)) == 0


@pytest.mark.parametrize("plane", list(Plane))
def test_fibres_that_cross_are_not_separated(plane: Plane) -> None:
    points = [(0.0, 0.0), (0.0, 10.0), (3.0, 4.0), (-3.0, 4.0), (3.0, 6.0), (-3.0, 6.0)]
    crossed = [(0, 2), (2, 5), (5, 1), (0, 3), (3, 4), (4, 1)]
    graph = make_graph(list("stabcd"), points, crossed, plane=plane)
    assert separation(graph, (0, 2, 5, 1), (0, 3, 4, 1)) == 0
    # The first piece of one path, which leads to the common end, crosses an inner piece of the other.
    ends = [(0.0, 0.0), (0.0, 10.0), (0.0, 5.0), (-3.0, 1.0), (3.0, 1.0)]
    graph = make_graph(list("stabc"), ends, [(0, 2), (2, 1), (0, 3), (3, 4), (4, 1)], plane=plane)
    assert separation(graph, (0, 2, 1), (0, 3, 4, 1)) == 0


def test_separation_needs_places() -> None:
    graph = make_graph(list("stx"), [(0, 0), (1, 1), (math.nan, math.nan)], [(0, 2), (2, 1), (0, 1)])
    assert separation(graph, (0, 2, 1), (0, 1)) is None


sites = st.lists(st.tuples(st.floats(-60, 60), st.floats(-100, 100)), min_size=2, max_size=4)


@example([(0.0, 0.0), (0.0, 0.0)], [(0.0, 6.0), (1.0, 0.0)], Plane.GEO)  # a site of one lies on a fibre
@given(sites, sites, st.sampled_from(Plane))
def test_separation_is_the_least_distance_of_points_along_the_inner_fibres(
    one: list[tuple[float, float]], other: list[tuple[float, float]], plane: Plane
) -> None:
    """Paths s → t with two or more inner sites each; samples along both can only be farther apart."""
    points = [(0.0, -170.0), (0.0, 170.0), *one, *other]
    first = (0, *range(2, 2 + len(one)), 1)
    second = (0, *range(2 + len(one), len(points)), 1)
    links = {tuple(sorted(pair)) for path in (first, second) for pair in pairwise(path)}
    graph = make_graph([str(n) for n in range(len(points))], points, sorted(links), plane=plane)
    found = separation(graph, first, second)
    assert found is not None
    assert found == pytest.approx(separation(graph, second, first) or 0.0, abs=1e-6)
    assert found == pytest.approx(separation(graph, first[::-1], second) or 0.0, abs=1e-6)

    def sampled(sites: list[tuple[float, float]]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        on = positions(plane, np.array(sites))
        share = np.linspace(0, 1, 21)[:, None]
        points = np.concatenate([a + share * (b - a) for a, b in pairwise(on)])
        if plane is Plane.GEO:
            points = points / np.maximum(np.linalg.norm(points, axis=1), 1e-12)[:, None]
        return points

    assert found <= distances(plane, sampled(one), sampled(other)).min() + 1e-6


def test_wrong_waypoints_are_named() -> None:
    with pytest.raises(InvalidDocumentError) as caught:
        parse_topology(
            """{"plane": "geo", "nodes": {"a": [0, 0], "b": [1, 1], "c": [2, 2]}, "edges": [["a", "b"]],
            "via": [["a", "b", [[95, 0], [1, "x"], 7]], ["a", "c", [[1, 1]]], ["a", "b", []], 3,
            ["a", "d", []]]}"""
        )
    text = str(caught.value)
    for part in (
        "via[0][2][0][0]",
        "via[0][2][1][1]",
        "via[0][2][2]",
        "between 'a' and 'c'",
        "via[2]",
        "via[3]",
    ):
        assert part in text
    assert "no node 'd'" in text


def test_a_map_shows_the_fibre(tmp_path: Path) -> None:
    graph = detour()
    report = assess(graph, Region.disc((8, 5), 150), all_pairs(graph), PathRequest(), cut_links=True)
    draw_disaster(graph, report, tmp_path / "map.png", "north")
    assert (tmp_path / "map.png").stat().st_size > 5000
