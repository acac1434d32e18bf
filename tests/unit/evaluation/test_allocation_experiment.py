"""The published experiment, on fewer seeds than `mangrove evaluate allocation` takes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mangrove.evaluation.allocation import Correlation, Setting, generate, run, run_seed
from mangrove.planning.problem.covariance import checked
from mangrove.planning.solvers.genetic import GeneticParams

PUBLISHED = json.loads((Path(__file__).parents[2] / "data" / "allocation_published.json").read_text())


def test_tests_differ_in_correlation_alone() -> None:
    mixed, positive = (generate(3, kind, Setting()) for kind in Correlation)
    assert (mixed.mean_rate_msg_s == positive.mean_rate_msg_s).all()
    assert np.allclose(np.diag(mixed.covariance), np.diag(positive.covariance))
    assert (mixed.covariance < 0).any()
    assert (positive.covariance > 0).all()
    for problem in (mixed, positive):
        assert checked(problem.covariance).semidefinite
        assert problem.best_capacity_msg_s == pytest.approx(PUBLISHED["broker_model"]["capacity_msg_s"])


@pytest.mark.timeout(300)
def test_published_observations_hold() -> None:
    outcome = run_seed(1, Setting(), GeneticParams(generations=300))
    findings = outcome.findings()
    assert len(findings) == 5
    assert all(findings.values()), findings
    for starts in outcome.tests.values():
        assert [start.quality for start in starts] == ["good", "medium", "weak"]
        assert starts[0].round_robin > starts[1].round_robin > starts[2].round_robin
        for start in starts:
            assert start.genetic == pytest.approx(float(np.prod(start.genetic_brokers)))


def test_summary_counts_and_repeats() -> None:
    setting, short = Setting(items=9, round_robin_orders=20), GeneticParams(generations=20)
    first = run([1, 2], setting, params=short)
    assert first.seeds == (1, 2)
    assert first == run([1, 2], setting, params=short)
    assert set(first.means) == {"A", "B"}
    assert all(0 <= count <= 2 for count in first.held.values())


def test_observations_match_the_published_ordering() -> None:
    """The tables themselves show what `findings` looks for."""
    tests = PUBLISHED["ga_vs_round_robin"]
    for name in ("test_A", "test_B"):
        rr, ga = tests[name]["rr"], tests[name]["ga"]
        assert rr == sorted(rr, reverse=True)
        gains = [(g - r) / r for g, r in zip(ga, rr, strict=True)]
        assert gains == sorted(gains)
        assert max(ga) - min(ga) <= 0.01 * max(ga)
    assert min(tests["test_A"]["ga"]) > max(tests["test_B"]["ga"])
