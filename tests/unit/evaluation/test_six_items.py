"""Figure 4-6: the printed gains, and those that follow from the printed inputs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mangrove.evaluation.published import ACTIVEMQ, FILTERS, JOINT_OK, REPLICATION
from mangrove.evaluation.six_items import (
    CAPACITY_MSG_S,
    COVARIANCE,
    MEAN_RATE_MSG_S,
    run_six_items,
)

DATA = Path(__file__).parents[2] / "data"
PROBLEM = json.loads((DATA / "allocation_6x3.json").read_text())
PUBLISHED = json.loads((DATA / "allocation_published.json").read_text())


def test_inputs_are_those_of_the_tables() -> None:
    assert list(MEAN_RATE_MSG_S) == PROBLEM["mean_rate"]
    assert [list(row) for row in COVARIANCE] == PROBLEM["covariance"]
    assert list(CAPACITY_MSG_S) == PROBLEM["capacity"]


def test_gains() -> None:
    printed, judged, ours = run_six_items()
    assert printed.gain == pytest.approx((0.7353, 0.7037, 0.9412), abs=1e-4)
    assert judged.risk_before == pytest.approx((0.008570, 0.017974, 0.003445), abs=1e-6)
    assert judged.risk_after == pytest.approx((0.030354, 0.014264, 0.028958), abs=1e-6)
    assert judged.gain[0] < 0 < judged.gain[1]
    assert ours.after == judged.before == ((2, 6), (1, 3), (4, 5))
    assert ours.before == ((1, 4, 6), (2, 5), (3,))
    assert ours.joint_ok_after == judged.joint_ok_before == pytest.approx(0.970256, abs=1e-6)
    assert ours.joint_ok_before is not None
    assert ours.joint_ok_before < 0.970256


def test_the_optimum_does_not_depend_on_the_seed() -> None:
    assert run_six_items(1) == run_six_items(7)


def test_published_figures_are_those_of_the_thesis() -> None:
    model = PUBLISHED["broker_model"]
    assert (ACTIVEMQ.t_rcv_s, ACTIVEMQ.t_fltr_s, ACTIVEMQ.t_tx_s) == (
        model["t_rcv"],
        model["t_fltr"],
        model["t_tx"],
    )
    assert (model["n_fltr"], model["r"]) == (FILTERS, REPLICATION)
    for test, (before, after) in JOINT_OK.items():
        table = PUBLISHED["ga_vs_round_robin"][f"test_{test}"]
        assert (list(before), list(after)) == (table["rr"], table["ga"])
