"""Probability of overload under the normal model, in log space (thesis §4.5.2).

The summed rate of a broker's items is taken as normal with their summed mean and the sum of all entries of
their covariance. Everything is a function of the margin `z = (capacity − mean) / deviation`; logarithms keep
a risk of 1e-30, and the difference between two such risks, from vanishing.
"""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr, ndtr

from mangrove.planning.problem.arrays import FloatArray

_SQRT_2PI = float(np.sqrt(2.0 * np.pi))


def margin(capacity: FloatArray, mean: FloatArray, variance: FloatArray) -> FloatArray:
    """Deviations between the mean and the capacity; ±∞ where nothing varies.

    Without variance the rate is its mean: a mean equal to the capacity does not exceed it.
    """
    slack = np.asarray(capacity - mean, dtype=np.float64)
    deviation = np.sqrt(np.maximum(variance, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        z = slack / deviation
    return np.asarray(np.where(deviation > 0, z, np.where(slack >= 0, np.inf, -np.inf)), dtype=np.float64)


def log_risk(z: FloatArray) -> FloatArray:
    """log P(rate > capacity)."""
    return np.asarray(log_ndtr(-z), dtype=np.float64)


def log_ok(z: FloatArray) -> FloatArray:
    """log P(rate ≤ capacity). Their sum over brokers is the log of the joint probability (§4.5.5.3)."""
    return np.asarray(log_ndtr(z), dtype=np.float64)


def constant_penalty(z: FloatArray, penalty: FloatArray) -> FloatArray:
    """Expected penalty when an overload costs `penalty`, however large: `P·P(rate > capacity)`."""
    return np.asarray(penalty * ndtr(-z), dtype=np.float64)


def expected_excess(z: FloatArray, mean_slack: FloatArray, variance: FloatArray) -> FloatArray:
    """`E[max(rate − capacity, 0)] = σ·(φ(z) − z·Φ(−z))`: the integral of §4.5.2 in closed form.

    `mean_slack` (capacity − mean) gives the limit where nothing varies.
    """
    deviation = np.sqrt(np.maximum(variance, 0.0))
    finite = np.where(np.isfinite(z), z, 0.0)
    density = np.exp(-0.5 * finite**2) / _SQRT_2PI
    excess = deviation * (density - finite * ndtr(-finite))
    return np.asarray(
        np.where(deviation > 0, np.maximum(excess, 0.0), np.maximum(-mean_slack, 0.0)), dtype=np.float64
    )
