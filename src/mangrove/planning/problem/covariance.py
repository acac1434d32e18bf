"""Covariance matrices: validation, repair to the nearest valid one, estimation from short samples.

Only a symmetric, positive semi-definite matrix is a covariance: any other gives some mixture of items a
negative variance. An optimiser looks for exactly such mixtures, so a matrix that offers one must not
reach it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mangrove.errors import InputError
from mangrove.planning.problem.arrays import FloatArray

# Relative size below which asymmetry or a negative eigenvalue is rounding in the input, not a mistake.
ROUNDING = 1e-9
# Up to this many items the variance of every set of items is looked at, one by one.
ENUMERABLE_ITEMS = 18


@dataclass(frozen=True, slots=True)
class CheckedCovariance:
    """A matrix that is safe to optimise with, and what had to be said about the one given."""

    matrix: FloatArray
    semidefinite: bool
    repaired: bool
    warnings: tuple[str, ...]


def asymmetry(matrix: FloatArray) -> tuple[int, int] | None:
    """Where the matrix differs most from its transpose, or None when it is symmetric up to rounding."""
    if matrix.size == 0:
        return None
    difference = np.abs(matrix - matrix.T)
    worst = np.unravel_index(int(np.argmax(difference)), matrix.shape)
    if difference[worst] <= ROUNDING * max(float(np.abs(matrix).max()), 1e-300):
        return None
    return int(min(worst)), int(max(worst))


def checked(matrix: FloatArray, *, always_repair: bool = False) -> CheckedCovariance:
    """Validate a symmetric matrix; repair it, and say so, when it could give a set of items no variance.

    A matrix that is not positive semi-definite is kept as given only when every one of the finitely many
    sets of items still has a positive variance under it (looked at one by one, for few items): the user's
    figures then mean what they say. It is repaired otherwise.
    """
    symmetric = np.asarray((matrix + matrix.T) / 2, dtype=np.float64)
    eigenvalues = np.linalg.eigvalsh(symmetric) if symmetric.size else np.zeros(1)
    smallest, largest = float(eigenvalues[0]), float(max(abs(eigenvalues[0]), abs(eigenvalues[-1])))
    if smallest >= -ROUNDING * max(largest, 1e-300) * symmetric.shape[0]:
        return CheckedCovariance(symmetric, semidefinite=True, repaired=False, warnings=())
    fault = (
        f"covariance is not positive semi-definite (smallest eigenvalue {smallest:.6g}), "
        "so it is not the covariance of any rates"
    )
    if not always_repair and _every_set_has_variance(symmetric):
        return CheckedCovariance(
            symmetric,
            semidefinite=False,
            repaired=False,
            warnings=(
                f"{fault}; used as given, because every set of items has a positive variance under it; "
                "ask for the repair (--repair-covariance) to use the nearest valid matrix",
            ),
        )
    repaired = nearest_covariance(symmetric)
    moved = float(np.linalg.norm(repaired - symmetric) / np.linalg.norm(symmetric))
    return CheckedCovariance(
        repaired,
        semidefinite=True,
        repaired=True,
        warnings=(
            f"{fault}; replaced by the nearest valid matrix with the same variances, "
            f"which moves it by {moved:.2%} (Frobenius norm)",
        ),
    )


def _every_set_has_variance(matrix: FloatArray) -> bool:
    count = matrix.shape[0]
    if count > ENUMERABLE_ITEMS or bool((np.diag(matrix) < 0).any()):
        return False
    # Variance of all 2^n sets by doubling: adding item i to the sets of items before it.
    variance = np.zeros(1)
    cross = np.zeros((1, count))
    for item in range(count):
        grown = variance + matrix[item, item] + 2.0 * cross[:, item]
        variance = np.concatenate([variance, grown])
        cross = np.concatenate([cross, cross + matrix[item]])
    return bool((variance[1:] > 0).all())


def nearest_covariance(matrix: FloatArray) -> FloatArray:
    """The nearest covariance with the same variances: nearest correlation matrix, scaled back.

    A row whose variance is zero or negative has no correlation; it becomes a row of zeros.
    """
    deviation = np.sqrt(np.clip(np.diag(matrix), 0.0, None))
    live = deviation > 0
    scale = np.where(live, deviation, 1.0)
    correlation = matrix / np.outer(scale, scale)
    correlation[~live, :] = 0.0
    correlation[:, ~live] = 0.0
    np.fill_diagonal(correlation, 1.0)
    return np.asarray(nearest_correlation(correlation) * np.outer(deviation, deviation), dtype=np.float64)


def nearest_correlation(matrix: FloatArray, *, rounds: int = 500, tolerance: float = 1e-10) -> FloatArray:
    """Nearest correlation matrix in the Frobenius norm: alternating projections with Dykstra's correction.

    Projects in turn on the semi-definite matrices and on those with a unit diagonal (Higham 2002). The last
    step mixes in a trace of the identity, so that rounding leaves no eigenvalue below zero.
    """
    current = np.array(matrix, dtype=np.float64)
    correction = np.zeros_like(current)
    for _ in range(rounds):
        target = current - correction
        projected = _semidefinite_part(target)
        correction = projected - target
        following = projected.copy()
        np.fill_diagonal(following, 1.0)
        change = float(np.linalg.norm(following - current))
        current = following
        if change <= tolerance * max(1.0, float(np.linalg.norm(current))):
            break
    smallest = float(np.linalg.eigvalsh(current)[0])
    if smallest < 0:
        share = -smallest / (1.0 - smallest)
        current = (1.0 - share) * current + share * np.eye(current.shape[0])
    return np.asarray((current + current.T) / 2, dtype=np.float64)


def _semidefinite_part(matrix: FloatArray) -> FloatArray:
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray((vectors * np.clip(values, 0.0, None)) @ vectors.T, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class RateEstimate:
    """Means and covariance of item rates, and how far the sample covariance was shrunk."""

    mean_rate: FloatArray
    covariance: FloatArray
    shrinkage: float


def estimate(samples: FloatArray) -> RateEstimate:
    """Estimate from `samples[window, item]`, shrinking towards the sample's own variances.

    With fewer windows than items the sample covariance is singular and its off-diagonal entries are mostly
    noise. `(1 − δ)·S + δ·diag(S)` is always valid when the variances are positive; δ is the share that
    minimises the expected squared error (Ledoit and Wolf's argument with Schäfer and Strimmer's target of
    unequal variances), estimated from the sample.
    """
    data = np.asarray(samples, dtype=np.float64)
    if data.ndim != 2 or data.shape[0] < 2 or data.shape[1] < 1:
        raise InputError(f"samples: shape {data.shape}; two windows or more and one item or more are needed")
    if not np.isfinite(data).all():
        raise InputError("samples: not all finite")
    windows = data.shape[0]
    mean = data.mean(axis=0)
    centred = data - mean
    # Sample covariance, and the variance of each of its entries over the windows.
    average = centred.T @ centred / windows
    factor = windows / (windows - 1)
    spread = (centred**2).T @ (centred**2) / windows - average**2
    entry_variance = factor**2 / (windows - 1) * spread
    sample = average * factor
    off = ~np.eye(sample.shape[0], dtype=bool)
    signal = float((sample[off] ** 2).sum())
    noise = float(entry_variance[off].sum())
    shrinkage = 1.0 if signal <= 0 else float(np.clip(noise / signal, 0.0, 1.0))
    shrunk = np.where(off, (1.0 - shrinkage) * sample, sample)
    return RateEstimate(mean, np.asarray(shrunk, dtype=np.float64), shrinkage)
