"""Peaks over threshold: by hand, and on samples whose tail is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import genpareto

from mangrove.planning.empirical import tails
from mangrove.planning.empirical.tails import Tail


def test_l_moments_by_hand() -> None:
    # Differences of 1, 2, 4: 1, 2 and 3; half of their mean is 1.
    assert tails.l_moments(np.array([4.0, 1.0, 2.0])) == pytest.approx((7 / 3, 1.0))
    assert tails.l_moments(np.array([5.0])) == (5.0, 0.0)
    assert tails.l_moments(np.array([])) == (0.0, 0.0)
    assert tails.l_moments(np.array([1.0]), np.array([0.0])) == (0.0, 0.0)


def test_a_weight_is_as_good_as_a_repetition_in_the_mean() -> None:
    values, times = np.array([1.0, 2.0, 7.0]), np.array([3.0, 2.0, 1.0])
    repeated = np.repeat(values, times.astype(int))
    assert tails.l_moments(values, times)[0] == pytest.approx(repeated.mean())


@pytest.mark.parametrize("shape", [-0.3, 0.0, 0.2, 0.4])
def test_the_estimator_finds_scipys_parameters(shape: float) -> None:
    sample = genpareto.rvs(shape, scale=3.0, size=20_000, random_state=np.random.default_rng(1))
    scale, found = tails.fitted(sample)
    assert found == pytest.approx(shape, abs=0.05)
    assert scale == pytest.approx(3.0, rel=0.05)


@pytest.mark.parametrize("shape", [-0.3, 0.0, 0.4])
def test_survival_is_scipys(shape: float) -> None:
    excess = np.array([0.0, 0.5, 2.0, 7.0, 100.0])
    expected = genpareto.logsf(excess, shape, scale=2.0)
    assert tails.log_survival(excess, 2.0, shape) == pytest.approx(expected)
    assert tails.log_survival(np.array([0.0, 1.0]), 0.0, shape).tolist() == [0.0, -np.inf]


def test_level_is_the_inverse_of_the_probability() -> None:
    for shape in (-0.2, 0.0, 0.3):
        tail = Tail(100.0, 0.05, 4.0, shape)
        assert tail.probability(tail.level(1e-4)) == pytest.approx(1e-4)
        assert tail.probability(100.0) == pytest.approx(0.05)


def test_tail_of_a_sample_predicts_what_the_sample_does_not_show() -> None:
    rng = np.random.default_rng(2)
    loads = 100.0 + rng.pareto(4.0, 20_000) * 10.0
    tail = tails.tail_of(loads, 0.05)
    assert tail is not None
    assert tail.share == pytest.approx(0.05, abs=1e-3)
    # P(load > c) = (1 + (c − 100)/10)^−4, of which 20,000 draws show about one beyond this level.
    assert tail.probability(200.0) == pytest.approx((1 + 10.0) ** -4, rel=0.7)
    assert tails.tail_of(loads[:50], 0.05) is None
    assert tails.tail_of(np.full(1000, 7.0), 0.05) is None


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0.01, 1e6), min_size=2, max_size=30), st.floats(0.1, 100.0))
def test_fit_follows_the_unit(excess: list[float], factor: float) -> None:
    """A change of unit changes the scale alone."""
    values = np.array(excess)
    scale, shape = tails.fitted(values)
    scaled, same = tails.fitted(values * factor)
    assert same == pytest.approx(shape, abs=1e-6)
    assert scaled == pytest.approx(scale * factor, rel=1e-6)
    assert scale >= 0
    assert tails.MIN_SHAPE <= shape <= tails.MAX_SHAPE
