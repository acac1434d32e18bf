"""The experiments on separated paths and on tables, small enough for every run, and their figures."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.kit.command import mangrove

from mangrove.errors import InputError
from mangrove.evaluation.confidence import estimate
from mangrove.evaluation.drawings.figures import draw_gap, draw_tables
from mangrove.evaluation.separation.backbones import backbone, backbone_names
from mangrove.evaluation.separation.gap import (
    METHODS,
    PUBLISHED_FAILURES,
    PUBLISHED_IMPROVEMENT,
    PUBLISHED_RADII,
    GapSetup,
    Model,
    backbone_setup,
    run_gap,
)
from mangrove.evaluation.tables import run_tables
from mangrove.routing.network.geography import Plane

PUBLISHED: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "data" / "gap_published.json").read_text()
)
SMALL = GapSetup(nodes=150, m=4, overlay=40, pairs=40, regions=40)


def test_published_figures_are_those_of_the_thesis() -> None:
    table = PUBLISHED["improvement"]
    assert list(PUBLISHED_RADII) == table["radius"][::-1]
    for method in METHODS:
        assert list(PUBLISHED_IMPROVEMENT[method]) == table[method][::-1]
    assert list(PUBLISHED_FAILURES) == PUBLISHED["failures_table_5_2"]["primary"][::-1]


def test_table_5_2_counts_a_hundred_regions() -> None:
    """The text says fifty; table 5-2 agrees with the log of appendix 6.2, which has a hundred."""
    log, table = PUBLISHED["log_of_appendix_6_2"], PUBLISHED["failures_table_5_2"]
    for method, alive in log["alive"].items():
        failures = log["pairs"] * log["regions"] - alive
        assert table[method][table["radius"].index(log["radius"])] == failures


def test_small_experiment_is_repeatable_and_puts_gap_ahead(tmp_path: Path) -> None:
    summary = run_gap(SMALL, [1, 2, 3])
    assert run_gap(SMALL, [1, 2, 3]) == summary
    assert run_gap(SMALL, [4, 5, 6]).improvement != summary.improvement
    middle = SMALL.radii.index(1000.0)
    for gap in ("gap_div", "gap_log"):
        assert summary.improvement[gap][middle].mean > summary.improvement["ksp3"][middle].mean
        assert summary.inner_near_share[gap].mean < summary.inner_near_share["ksp5"].mean
        assert 1 <= summary.stretch[gap].mean <= 2.5
    failures = [estimate_.mean for estimate_ in summary.failures["primary"]]
    assert failures == sorted(failures)
    draw_gap(summary, tmp_path / "gap.png")
    assert (tmp_path / "gap.png").read_bytes().startswith(b"\x89PNG")


def test_without_a_limit_on_delay_the_two_variants_agree() -> None:
    """Relaxation only ever happens when a constraint is broken."""
    free = run_gap(GapSetup(nodes=150, m=4, overlay=40, pairs=40, regions=20, max_stretch=None), [1])
    assert free.improvement["gap_div"] == free.improvement["gap_log"]


def test_shortfalls_are_told() -> None:
    summary = run_gap(SMALL, [1])
    turned = {**summary.improvement, "gap_div": tuple(estimate([-1.0]) for _ in SMALL.radii)}
    missed = replace(summary, improvement=turned).missed()
    assert any("gap_div" in line and "not ahead of ksp3" in line for line in missed)
    far = {
        method: tuple(estimate([e.mean + 0.3]) for e in row) for method, row in summary.improvement.items()
    }
    published = replace(summary, setup=GapSetup(), improvement=far)
    assert any("published" in line for line in published.missed())


def test_barabasi_albert_underlay() -> None:
    summary = run_gap(GapSetup(Model.BARABASI_ALBERT, 120, 3, overlay=30, pairs=20, regions=20), [1])
    assert "barabasi-albert" in summary.topology


def test_real_backbone_in_kilometres() -> None:
    graph = backbone("sndlib/nobel-eu")
    assert graph.plane is Plane.GEO
    setup = backbone_setup(graph, pairs=60, regions=40)
    assert 300 < setup.separation < 900
    summary = run_gap(setup, [1, 2], graph, "nobel-eu")
    middle = len(setup.radii) // 2
    assert summary.improvement["gap_div"][middle].mean > summary.improvement["ksp3"][middle].mean


def test_backbones_have_places_on_the_earth() -> None:
    for group in ("sndlib", "backbone", "topozoo"):
        for name in backbone_names(group)[::4]:
            graph = backbone(f"{group}/{name}")
            if graph.plane is Plane.GEO:
                assert (abs(graph.points[:, 0]) <= 90).all()
                assert (abs(graph.points[:, 1]) <= 180).all()
            assert graph.links >= graph.size - 1
    assert backbone("sndlib/atlanta").plane is Plane.EUCLIDEAN  # drawn on paper
    germany = backbone("sndlib/germany50")
    assert germany.plane is Plane.GEO
    assert germany.points[germany.index("Frankfurt")] == pytest.approx([50.1, 8.7], abs=0.1)
    with pytest.raises(InputError, match="no backbone"):
        backbone("sndlib/atlantis")


def test_tables_experiment(tmp_path: Path) -> None:
    result = run_tables(16, 28, [1, 2])
    assert result.missed() == []
    for summary in result.summaries:
        assert summary.stretch["pcrt"].mean == summary.stretch["recomputed"].mean == 1.0
        assert summary.share_by_hops["pcrt"] == summary.share_by_hops["recomputed"]
        assert summary.stretch["layers"].mean > 1.0
        assert sum(summary.share_by_hops["layers"].values()) == pytest.approx(1.0)
    draw_tables(result, tmp_path / "tables.png")
    assert (tmp_path / "tables.png").read_bytes().startswith(b"\x89PNG")


def test_interval_is_students() -> None:
    found = estimate([1.0, 2.0, 3.0])
    assert found.mean == 2.0
    assert found.half_width == pytest.approx(4.302653 / math.sqrt(3), rel=1e-6)
    assert estimate([5.0]).half_width is None
    assert str(estimate([5.0])) == "5.000"


def test_bad_setups() -> None:
    with pytest.raises(InputError):
        GapSetup(max_stretch=0.5)
    with pytest.raises(InputError):
        GapSetup(pairs=1)
    with pytest.raises(InputError):
        run_gap(SMALL, [])


@pytest.mark.parametrize(
    "arguments",
    [
        ("gap", "--seeds", "2", "--nodes", "120", "--m", "3", "--pairs", "20", "--regions", "20"),
        ("gap", "--seeds", "1", "--topology", "topohub:sndlib/polska", "--pairs", "20", "--regions", "20"),
        ("tables", "--seeds", "1", "--nodes", "10", "--links", "16"),
    ],
)
def test_commands(arguments: tuple[str, ...]) -> None:
    done = mangrove("evaluate", *arguments, "--json")
    assert done.returncode in (0, 1), done.stderr
    document = json.loads(done.stdout)
    assert document["experiment"] == arguments[0]
    assert (done.returncode == 1) == bool(document["missed"])
    assert document["seeds"]
