"""What a disaster leaves: a network made for it, and the order that always holds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mangrove.evaluation.disasters.recorded import RecordedDisaster
from mangrove.evaluation.disasters.survival import WAYS, run_survival, survive
from mangrove.routing.network.geography import Plane
from mangrove.routing.network.graph import Graph, make_graph
from mangrove.routing.paths.disaster import all_pairs


def disaster(latitude: float, longitude: float, radius_km: float, name: str = "quake") -> RecordedDisaster:
    return RecordedDisaster(
        name=name,
        kind="earthquake",
        date="2020-01-01",
        points=((latitude, longitude),),
        radius_km=radius_km,
        source="made up",
    )


def three_rails() -> Graph:
    """West and east ends; three ways between them, about 55 km apart and then 1,100 km to the south."""
    places = [(0.0, -5.0), (0.0, 5.0), (0.0, 0.0), (-0.5, 0.0), (-10.0, 0.0)]
    links = [(0, 2), (2, 1), (0, 3), (3, 1), (0, 4), (4, 1)]
    return make_graph(["west", "east", "middle", "near", "far"], places, links, plane=Plane.GEO)


def test_a_near_second_path_falls_with_the_first() -> None:
    graph = three_rails()
    found = survive(graph, "rails", disaster(0.0, 0.0, 100), [(0, 1)], separation_km=300)
    assert found is not None
    assert found.nodes_struck == 2
    assert found.pairs == found.possible == 1
    assert found.surviving == {"one_path": 0, "disjoint": 0, "gap": 1}


def test_disasters_elsewhere_are_not_felt() -> None:
    graph = three_rails()
    result = run_survival([disaster(50.0, 50.0, 100, "away"), disaster(0.0, 0.0, 30)], {"rails": graph})
    assert result.untouched == ("away 2020",)
    (summary,) = result.summaries
    assert summary.disaster.name == "quake"
    assert summary.backbones == 1
    assert summary.pairs == 6  # pairs without the middle
    assert summary.hit == 1
    assert summary.saved["gap"] == 1.0
    assert result.missed() == []


def test_pairs_that_are_struck_do_not_count() -> None:
    assert survive(three_rails(), "rails", disaster(0.0, -5.0, 30), [(0, 1)]) is None


def test_cables_count_when_asked() -> None:
    graph, storm = three_rails(), disaster(0.0, 2.5, 10)
    assert survive(graph, "rails", storm, [(0, 1)]) is None
    found = survive(graph, "rails", storm, [(0, 1)], cut_links=True)
    assert found is not None
    assert found.surviving["one_path"] == 0


def test_separated_paths_that_keep_less_are_told() -> None:
    result = run_survival([disaster(0.0, 0.0, 30)], {"rails": three_rails()})
    (only,) = result.each
    worse = replace(only, surviving={**only.surviving, "gap": 0})
    assert "separated paths keep 0 pairs" in replace(result, each=(worse,)).missed()[0]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(6, 14), st.floats(50, 1500), st.booleans())
def test_no_way_keeps_more_than_is_possible(seed: int, size: int, radius_km: float, cut: bool) -> None:
    rng = np.random.default_rng(seed)
    places = rng.uniform(-20, 20, (size, 2)).tolist()
    ring = [(node, (node + 1) % size) for node in range(size)]
    across = [tuple(sorted(rng.choice(size, 2, replace=False).tolist())) for _ in range(size)]
    links = sorted({(min(a, b), max(a, b)) for a, b in [*ring, *across]})
    graph = make_graph([f"n{node}" for node in range(size)], places, links, plane=Plane.GEO)
    event = disaster(float(rng.uniform(-20, 20)), float(rng.uniform(-20, 20)), radius_km)
    found = survive(graph, "random", event, all_pairs(graph), cut)
    if found is None:
        return
    kept = [found.surviving[way] for way in WAYS]
    assert all(kept[0] <= other <= found.possible <= found.pairs for other in kept)
    assert kept[0] < found.pairs
