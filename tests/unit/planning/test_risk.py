"""Risk under the normal model."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, stats

from mangrove.planning.judgement import risk


def z_of(capacity: float, mean: float, variance: float) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return risk.margin(np.asarray(capacity), np.asarray(mean), np.asarray(variance))


def test_risk_agrees_with_the_distribution() -> None:
    z = z_of(700, 430, 12830)
    expected = stats.norm(430, math.sqrt(12830)).sf(700)
    assert np.exp(risk.log_risk(z)) == pytest.approx(expected, rel=1e-12)
    assert np.exp(risk.log_ok(z)) == pytest.approx(1 - expected, rel=1e-12)


def test_tiny_risks_stay_apart() -> None:
    near, far = risk.log_risk(z_of(11.5, 0, 1)), risk.log_risk(z_of(12.5, 0, 1))
    assert 0 < np.exp(near) < 1e-30
    assert far < near
    assert risk.log_ok(z_of(11.5, 0, 1)) == pytest.approx(-np.exp(near), rel=1e-9)
    assert risk.log_risk(z_of(60, 0, 1)) == pytest.approx(stats.norm.logsf(60), rel=1e-9)


def test_without_variance_the_mean_decides() -> None:
    assert risk.log_risk(z_of(10, 10, 0)) == -np.inf
    assert risk.log_risk(z_of(10, 10.1, 0)) == 0
    assert risk.log_ok(z_of(10, 9, 0)) == 0


@pytest.mark.parametrize(("capacity", "mean", "variance"), [(10, 8, 4), (10, 12, 9), (5, 5, 1), (20, 5, 4)])
def test_expected_excess_is_the_integral(capacity: float, mean: float, variance: float) -> None:
    density = stats.norm(mean, math.sqrt(variance)).pdf
    integral, _ = integrate.quad(
        lambda x: (x - capacity) * density(x), capacity, capacity + 40 * math.sqrt(variance), epsabs=0
    )
    found = risk.expected_excess(
        z_of(capacity, mean, variance), np.asarray(capacity - mean), np.asarray(variance)
    )
    assert found == pytest.approx(integral, rel=1e-6)


def test_expected_excess_without_variance() -> None:
    assert risk.expected_excess(z_of(10, 13, 0), np.asarray(-3.0), np.asarray(0.0)) == 3.0
    assert risk.expected_excess(z_of(10, 9, 0), np.asarray(1.0), np.asarray(0.0)) == 0.0


def test_constant_penalty() -> None:
    z = z_of(0, 0, 1)
    assert risk.constant_penalty(z, np.asarray(8.0)) == 4.0
