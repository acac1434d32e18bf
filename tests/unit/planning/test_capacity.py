"""Broker model and its calibration."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mangrove.errors import InputError, InvalidDocumentError
from mangrove.planning.problem.calibration import Observation, calibrate
from mangrove.planning.problem.capacity import BrokerModel, rate_weighted_mean, set_capacity_msg_s

PUBLISHED = json.loads((Path(__file__).parents[2] / "data" / "allocation_published.json").read_text())
TABLE_4_5 = PUBLISHED["broker_model"]
MODEL = BrokerModel(TABLE_4_5["t_rcv"], TABLE_4_5["t_fltr"], TABLE_4_5["t_tx"])


def test_delay_and_capacity_of_table_4_5() -> None:
    n, r = TABLE_4_5["n_fltr"], TABLE_4_5["r"]
    assert MODEL.processing_time_s(n, r) == pytest.approx(TABLE_4_5["delay_s"], rel=1e-9)
    assert MODEL.capacity_msg_s(n, r) == pytest.approx(TABLE_4_5["capacity_msg_s"], rel=1e-6)
    assert MODEL.overall_throughput_msg_s(n, r) == pytest.approx(11 * TABLE_4_5["capacity_msg_s"], rel=1e-6)


def test_average_over_messages_not_over_items() -> None:
    assert rate_weighted_mean([1.0, 3.0], [10.0, 2.0]) == 4.0
    assert rate_weighted_mean([0.0, 0.0], [10.0, 2.0]) == 6.0
    with pytest.raises(InputError):
        rate_weighted_mean([1.0], [1.0, 2.0])


def test_capacity_of_a_set_follows_its_busiest_items() -> None:
    rates, filters, copies = [100.0, 1.0], [0.0, 0.0], [1.0, 50.0]
    capacity = set_capacity_msg_s(MODEL, rates, filters, copies)
    mean_copies = (100 * 1 + 1 * 50) / 101
    assert capacity == pytest.approx(1 / (MODEL.t_rcv_s + mean_copies * MODEL.t_tx_s))


@pytest.mark.parametrize("times", [(-1.0, 0.0, 1.0), (float("nan"), 0.0, 1.0), (0.0, 0.0, 0.0)])
def test_impossible_models_are_refused(times: tuple[float, float, float]) -> None:
    with pytest.raises(InputError, match="model"):
        BrokerModel(*times)


def observed(filters: float, replication: float, noise: float = 0.0) -> Observation:
    time_s = float(MODEL.processing_time_s(filters, replication)) * (1 + noise)
    return Observation(filters, replication, time_s)


def test_calibration_recovers_known_parameters() -> None:
    rng = np.random.default_rng(5)
    runs = [
        observed(f, r, 0.01 * rng.normal()) for f in (0, 100, 1000) for r in (1, 5, 20, 50) for _ in range(3)
    ]
    fit = calibrate(runs)
    assert fit.model.t_rcv_s == pytest.approx(MODEL.t_rcv_s, rel=0.1)
    assert fit.model.t_fltr_s == pytest.approx(MODEL.t_fltr_s, rel=0.1)
    assert fit.model.t_tx_s == pytest.approx(MODEL.t_tx_s, rel=0.02)
    assert 0.003 < fit.relative_rms < 0.03
    assert len(fit.residuals_s) == len(runs)
    assert not fit.warnings


def test_calibration_without_noise_leaves_no_residual() -> None:
    fit = calibrate([observed(f, r) for f in (0, 10, 100) for r in (1, 10)])
    assert fit.model.t_fltr_s == pytest.approx(MODEL.t_fltr_s, rel=1e-6)
    assert max(map(abs, fit.residuals_s)) < 1e-12


def test_calibration_says_what_it_cannot_identify() -> None:
    same_filters = calibrate([observed(3, r) for r in (1, 2, 5, 10)])
    assert set(same_filters.unidentified) == {"t_rcv", "t_fltr"}
    assert any("t_fltr" in warning for warning in same_filters.warnings)
    in_step = calibrate([observed(k, 2 * k) for k in (1, 2, 3, 4)])
    assert set(in_step.unidentified) == {"t_fltr", "t_tx"}


def test_calibration_never_fits_a_negative_time() -> None:
    runs = [Observation(0, r, 1e-3 - 1e-6 * r) for r in (1, 2, 5, 10)] + [Observation(10, 3, 1e-3)]
    fit = calibrate(runs)
    assert fit.model.t_tx_s == 0
    assert any("t_tx" in warning for warning in fit.warnings)


def test_calibration_refuses_impossible_measurements_all_at_once() -> None:
    with pytest.raises(InvalidDocumentError) as caught:
        calibrate([Observation(-1, float("nan"), 0.0)])
    assert len(caught.value.mistakes) == 3
    with pytest.raises(InvalidDocumentError):
        calibrate([])
