"""Tails by peaks over threshold: how likely a load is that was seldom, or never, observed.

Beyond a high threshold u the excess of a load is taken as generalised Pareto (Pickands, Balkema and de Haan):

    P(load > c) = P(load > u) · (1 + ξ·(c − u)/σ)^(−1/ξ)

with shape ξ (0: exponential; above: heavier than any exponential; below: a largest possible value). Both are
estimated by probability-weighted moments (Hosking and Wallis, 1987), which need no iteration, bear small
samples, and are ratios of sums, so that a sample may carry weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mangrove.planning.problem.arrays import FloatArray, IntArray

# The estimator has no finite variance beyond ξ = 1/2, and no mean beyond 1: what it says there is capped.
MAX_SHAPE = 0.9
MIN_SHAPE = -2.0
# Fewer excesses than this say nothing about a shape.
MIN_EXCESSES = 10


@dataclass(frozen=True, slots=True)
class Tail:
    """A load beyond `threshold`: exceeded with probability `share`, by a generalised Pareto excess."""

    threshold: float
    share: float
    scale: float
    shape: float

    def probability(self, level: float) -> float:
        """P(load > level), for a level of at least the threshold."""
        return float(np.exp(self.log_probability(np.asarray(level))))

    def log_probability(self, level: FloatArray) -> FloatArray:
        """Its logarithm; −∞ beyond the largest possible value."""
        with np.errstate(divide="ignore"):
            share = np.log(self.share)
        return np.asarray(
            share + log_survival(np.asarray(level) - self.threshold, self.scale, self.shape), dtype=np.float64
        )

    def level(self, probability: float) -> float:
        """The load that is exceeded with this probability, at most `share`."""
        ratio = self.share / probability
        if self.shape == 0:
            return self.threshold + self.scale * float(np.log(ratio))
        return self.threshold + self.scale / self.shape * float(ratio**self.shape - 1.0)


def log_survival(excess: FloatArray, scale: FloatArray | float, shape: float) -> FloatArray:
    """log P(X > excess) of the generalised Pareto distribution; without a scale nothing exceeds 0."""
    excess = np.maximum(np.asarray(excess, dtype=np.float64), 0.0)
    spread = np.asarray(scale, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = excess / spread
        log = -ratio if shape == 0 else -np.log1p(np.maximum(shape * ratio, -1.0)) / shape
    return np.asarray(np.where(spread > 0, log, np.where(excess > 0, -np.inf, 0.0)), dtype=np.float64)


def mean_excess(excess: FloatArray, scale: FloatArray, shape: float) -> FloatArray:
    """E[X − excess | X > excess]: it grows with the excess where the shape is above 0."""
    return np.asarray(np.maximum(scale + shape * np.maximum(excess, 0.0), 0.0) / (1.0 - shape))


def fitted(excess: FloatArray, weights: FloatArray | None = None) -> tuple[float, float]:
    """Scale and shape of positive excesses by probability-weighted moments.

    With l1 the mean and l2 half the mean difference of two excesses: `ξ = 2 − l1/l2`, `σ = (1 − ξ)·l1`.
    """
    mean, half_difference = l_moments(excess, weights)
    if mean <= 0 or half_difference <= 0:
        return max(mean, 0.0), 0.0 if mean <= 0 else MIN_SHAPE
    shape = shape_of(half_difference / mean)
    return (1.0 - shape) * mean, shape


def shape_of(ratio: float) -> float:
    """The shape whose excesses have this ratio of l2 to l1, within what can be estimated."""
    return float(np.clip(2.0 - 1.0 / ratio, MIN_SHAPE, MAX_SHAPE)) if ratio > 0 else MIN_SHAPE


def l_moments(values: FloatArray, weights: FloatArray | None = None) -> tuple[float, float]:
    """The first two L-moments: mean, and half the mean difference between two draws.

    Without weights two draws are of two different values (unbiased). With weights they are draws with
    replacement, corrected by the effective number of values.
    """
    values = np.asarray(values, dtype=np.float64)
    if len(values) == 0:
        return 0.0, 0.0
    order: IntArray = np.argsort(values, kind="stable")
    ordered = values[order]
    share = np.full(len(values), 1.0 / len(values))
    if weights is not None:
        total = float(np.sum(weights))
        if total <= 0:
            return 0.0, 0.0
        share = np.asarray(weights, dtype=np.float64)[order] / total
    below = np.cumsum(share) - share
    mean = float(share @ ordered)
    # Σ p_i·p_j·|x_i − x_j| / 2, in one pass over the ordered values.
    half = float(share @ (ordered * (2.0 * below + share - 1.0)))
    distinct = 1.0 - float(share @ share)
    return mean, half / distinct if distinct > 0 else 0.0


def tail_of(loads: FloatArray, share: float, weights: FloatArray | None = None) -> Tail | None:
    """Peaks over the threshold that about this share exceeds; None with too few excesses to fit."""
    loads = np.asarray(loads, dtype=np.float64)
    given = np.full(len(loads), 1.0 / max(len(loads), 1)) if weights is None else weights / weights.sum()
    order: IntArray = np.argsort(-loads, kind="stable")
    # The largest threshold that at least the share exceeds would leave the last peak at an excess of zero.
    place = int(np.searchsorted(np.cumsum(given[order]), share, side="right"))
    if place >= len(loads):
        return None
    threshold = float(loads[order[place]])
    return beyond(loads, threshold, given)


def beyond(loads: FloatArray, threshold: float, weights: FloatArray) -> Tail | None:
    """The tail beyond a given threshold; `weights` add up to 1."""
    above = (loads > threshold) & (weights > 0)
    if int(above.sum()) < MIN_EXCESSES:
        return None
    scale, shape = fitted(loads[above] - threshold, weights[above])
    return Tail(threshold, float(weights[above].sum()), scale, shape)
