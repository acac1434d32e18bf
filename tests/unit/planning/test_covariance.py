"""Covariance: what is valid, what is repaired, what is estimated."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mangrove.errors import InputError
from mangrove.planning.problem.arrays import FloatArray
from mangrove.planning.problem.covariance import (
    asymmetry,
    checked,
    estimate,
    nearest_correlation,
    nearest_covariance,
)

GOLDEN = json.loads((Path(__file__).parents[2] / "data" / "allocation_6x3.json").read_text())
PRINTED = np.array(GOLDEN["covariance"], dtype=np.float64)


def test_valid_matrix_passes_unchanged_without_a_word() -> None:
    matrix = np.array([[4.0, -1.0], [-1.0, 2.0]])
    found = checked(matrix)
    assert (found.matrix == matrix).all()
    assert found.semidefinite
    assert not found.warnings


def test_singular_matrix_is_valid() -> None:
    assert checked(np.ones((3, 3))).semidefinite


def test_printed_matrix_is_used_as_given_with_a_warning() -> None:
    found = checked(PRINTED)
    assert (found.matrix == PRINTED).all()
    assert not found.semidefinite
    assert not found.repaired
    assert f"{GOLDEN['recomputed']['min_eigenvalue_of_covariance']:.3f}" in found.warnings[0]


def test_printed_matrix_is_repaired_on_request() -> None:
    found = checked(PRINTED, always_repair=True)
    assert found.repaired
    assert np.linalg.eigvalsh(found.matrix)[0] >= -1e-6
    assert np.allclose(np.diag(found.matrix), np.diag(PRINTED))
    assert "nearest valid matrix" in found.warnings[0]


def test_matrix_that_gives_a_set_no_variance_is_always_repaired() -> None:
    matrix = np.array([[1.0, -2.0], [-2.0, 1.0]])  # together the two items would vary by −2
    found = checked(matrix)
    assert found.repaired
    assert np.allclose(found.matrix, [[1.0, -1.0], [-1.0, 1.0]], atol=1e-6)


def test_invalid_matrix_of_many_items_is_repaired() -> None:
    rng = np.random.default_rng(3)
    draws = rng.uniform(-0.6, 0.6, (30, 30))
    matrix = (draws + draws.T) / 2
    np.fill_diagonal(matrix, 1.0)
    found = checked(matrix)
    assert found.repaired
    assert np.linalg.eigvalsh(found.matrix)[0] >= -1e-9


def test_nearest_correlation_of_the_literature() -> None:
    """The example of Higham (2002): a matrix of three with ones next to the diagonal."""
    matrix = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 1.0]])
    expected = np.array([[1.0, 0.7607, 0.1573], [0.7607, 1.0, 0.7607], [0.1573, 0.7607, 1.0]])
    assert np.allclose(nearest_correlation(matrix), expected, atol=1e-4)


def test_item_without_variance_keeps_none() -> None:
    repaired = nearest_covariance(np.array([[0.0, 1.0], [1.0, 4.0]]))
    assert np.allclose(repaired, [[0.0, 0.0], [0.0, 4.0]])


def test_asymmetry_is_located() -> None:
    assert asymmetry(np.array([[1.0, 2.0], [2.0, 1.0]])) is None
    assert asymmetry(np.array([[1.0, 2.0], [2.1, 1.0]])) == (0, 1)


def sampled(windows: int, seed: int) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(seed)
    loadings = rng.normal(size=(20, 2))
    truth = loadings @ loadings.T + np.diag(rng.uniform(1, 3, 20))
    return truth, rng.multivariate_normal(np.full(20, 100.0), truth, size=windows)


def test_short_sample_is_shrunk_to_something_better_and_valid() -> None:
    errors_raw, errors_shrunk = [], []
    for seed in range(10):
        truth, samples = sampled(12, seed)
        found = estimate(samples)
        assert 0 < found.shrinkage < 1
        assert np.linalg.eigvalsh(found.covariance)[0] > 0
        errors_raw.append(np.linalg.norm(np.cov(samples.T) - truth))
        errors_shrunk.append(np.linalg.norm(found.covariance - truth))
    assert np.mean(errors_shrunk) < 0.9 * np.mean(errors_raw)


def test_long_sample_is_hardly_shrunk() -> None:
    truth, samples = sampled(20_000, 1)
    found = estimate(samples)
    assert found.shrinkage < 0.01
    assert np.allclose(found.mean_rate, 100.0, atol=0.2)
    assert np.abs(found.covariance - truth).max() < 0.3


def test_estimate_needs_two_windows_of_numbers() -> None:
    with pytest.raises(InputError, match="samples"):
        estimate(np.ones((1, 3)))
    with pytest.raises(InputError, match="samples"):
        estimate(np.array([[1.0, np.nan], [1.0, 2.0]]))
