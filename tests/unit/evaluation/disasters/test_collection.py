"""The experiment over a collection of backbones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mangrove.errors import InputError
from mangrove.evaluation.confidence import estimate
from mangrove.evaluation.disasters.collection import (
    RADIUS_SHARES,
    CollectionResult,
    listed,
    placed_backbones,
    run_collection,
)
from mangrove.routing.network.geography import Plane
from mangrove.routing.network.graph import Graph

CHOSEN = ("sndlib/nobel-eu", "sndlib/nobel-us", "topozoo/Abilene")


@pytest.fixture(scope="module")
def backbones() -> dict[str, Graph]:
    return placed_backbones(("sndlib", "topozoo"), max_nodes=40)


@pytest.fixture(scope="module")
def result(backbones: dict[str, Graph]) -> CollectionResult:
    chosen = {name: backbones[name] for name in CHOSEN if name in backbones}
    assert len(chosen) >= 2
    return run_collection(chosen, [1], pairs=20, regions=40)


def test_only_connected_backbones_with_places(backbones: dict[str, Graph]) -> None:
    assert len(backbones) > 100
    assert "sndlib/atlanta" not in backbones  # drawn on paper
    assert all(graph.plane is Plane.GEO and 5 <= graph.size <= 40 for graph in backbones.values())
    sizes = {one.name: one for one in listed(backbones)}
    assert sizes["sndlib/nobel-eu"].nodes == 28
    assert 1500 < sizes["sndlib/nobel-eu"].width_km < 3500


def test_groups_and_all_together(result: CollectionResult) -> None:
    names = [group.group for group in result.groups]
    assert names[-1] == "all" or len(names) == 1
    everything = result.groups[-1]
    assert everything.backbones == len(result.each)
    assert everything.ahead + everything.equal + everything.behind == everything.backbones
    for values in everything.improvement.values():
        assert len(values) == len(RADIUS_SHARES)


def test_separated_paths_that_are_behind_are_told(result: CollectionResult) -> None:
    group = result.groups[0]
    turned = {**group.improvement, "gap_div": tuple(estimate([-1.0]) for _ in RADIUS_SHARES)}
    missed = replace(result, groups=(replace(group, improvement=turned),)).missed()
    assert len(missed) == len(RADIUS_SHARES)
    assert "radius 10%" in missed[2]


def test_bad_input() -> None:
    with pytest.raises(InputError, match="no group"):
        placed_backbones(("atlantis",))
    with pytest.raises(InputError, match="within these sizes"):
        placed_backbones(("sndlib",), min_nodes=4000, max_nodes=4001)
