"""Distances, lines and regions on both planes, against figures known from elsewhere."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mangrove.routing.network.geography import (
    EARTH_RADIUS_KM,
    Plane,
    distances,
    distances_to_line,
    positions,
    segments_to_line,
)
from mangrove.routing.network.graph import make_graph
from mangrove.routing.network.regions import Region, damage, links_inside, nodes_inside

SEATTLE, ORLANDO = (47.61, -122.33), (28.54, -81.38)
DEGREE_KM = EARTH_RADIUS_KM * math.pi / 180


def at(
    *points: tuple[float, float], plane: Plane = Plane.GEO
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return positions(plane, np.array(points))


def test_great_circle_by_haversine() -> None:
    (lat1, lon1), (lat2, lon2) = np.radians(SEATTLE), np.radians(ORLANDO)
    half = np.sin((lat2 - lat1) / 2) ** 2 + np.cos(lat1) * np.cos(lat2) * np.sin((lon2 - lon1) / 2) ** 2
    expected = 2 * EARTH_RADIUS_KM * np.arcsin(np.sqrt(half))
    assert distances(Plane.GEO, at(SEATTLE), at(ORLANDO))[0, 0] == pytest.approx(expected)
    assert expected == pytest.approx(4110, abs=15)


def test_across_the_date_line_and_over_the_pole() -> None:
    assert distances(Plane.GEO, at((0, 179.5)), at((0, -179.5)))[0, 0] == pytest.approx(DEGREE_KM)
    assert distances(Plane.GEO, at((89.5, 0)), at((89.5, 180)))[0, 0] == pytest.approx(DEGREE_KM)
    assert distances(Plane.GEO, at((0, 0)), at((0, 180)))[0, 0] == pytest.approx(math.pi * EARTH_RADIUS_KM)


@pytest.mark.parametrize(
    ("point", "expected_degrees"),
    [((1, 5), 1), ((0, 5), 0), ((0, 12), 2), ((0, -3), 3), ((-2, 10), 2), ((0, 179), 169)],
)
def test_distance_to_an_arc_on_the_equator(point: tuple[float, float], expected_degrees: float) -> None:
    found = distances_to_line(Plane.GEO, at(point), at((0, 0), (0, 10)))[0]
    assert found == pytest.approx(expected_degrees * DEGREE_KM, abs=1e-6)


@pytest.mark.parametrize(
    ("point", "expected"), [((5, 3), 3), ((-3, 4), 5), ((10, 0), 0), ((13, -4), 5), ((5, 0), 0)]
)
def test_distance_to_a_euclidean_segment(point: tuple[float, float], expected: float) -> None:
    line = at((0, 0), (10, 0), plane=Plane.EUCLIDEAN)
    assert distances_to_line(Plane.EUCLIDEAN, np.array([point], dtype=float), line)[0] == pytest.approx(
        expected
    )


@pytest.mark.parametrize("plane", list(Plane))
def test_crossing_lines_are_at_no_distance(plane: Plane) -> None:
    starts, ends = at((-5, 5), plane=plane), at((5, 5), plane=plane)
    track = at((0, 0), (0, 10), plane=plane)
    assert segments_to_line(plane, starts, ends, track)[0] == pytest.approx(0, abs=1e-6)
    beside = at((0, 20), (0, 30), plane=plane)
    assert segments_to_line(plane, starts, ends, beside)[0] > 1


def test_a_link_over_the_far_side_is_not_crossed() -> None:
    """Great circles meet twice, on opposite sides of the earth; only the meeting on both arcs counts."""
    starts, ends = at((-5, 175)), at((5, 175))
    assert segments_to_line(Plane.GEO, starts, ends, at((0, -10), (0, 10)))[0] > 10_000


def test_segment_that_is_a_point() -> None:
    for plane in Plane:
        spot = at((10, 10), plane=plane)
        far = segments_to_line(plane, spot, spot, at((10, 12), plane=plane))[0]
        assert far == pytest.approx(distances(plane, spot, at((10, 12), plane=plane))[0, 0])


def test_storm_track_takes_what_lies_along_it() -> None:
    graph = make_graph(
        ["south", "middle", "north", "west"],
        [(25, -80), (30, -81), (35, -79), (30, -95)],
        [(0, 1), (1, 2), (1, 3)],
        plane=Plane.GEO,
    )
    track = Region(((24.0, -80.0), (36.0, -80.0)), 150.0)
    assert nodes_inside(graph, track).tolist() == [True, True, True, False]
    assert links_inside(graph, track).tolist() == [True, True, True]
    narrow = Region(((24.0, -80.5), (36.0, -80.5)), 1.0)
    assert nodes_inside(graph, narrow).tolist() == [False] * 4
    assert links_inside(graph, narrow).tolist() == [True, True, False]


def test_disc_includes_its_rim() -> None:
    graph = make_graph(["a", "b"], [(0, 0), (3, 4)], [(0, 1)])
    assert nodes_inside(graph, Region.disc((0, 0), 5)).tolist() == [True, True]
    assert not damage(graph, Region.disc((1.5, 2), 1)).breaks(graph, (0, 1))
    assert damage(graph, Region.disc((1.5, 2), 1), cut_links=True).breaks(graph, (0, 1))
