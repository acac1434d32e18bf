"""Methods compared over the same experiments: intervals, wins, and the Wilcoxon signed-rank test (ePEER
§4.5.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 2000
_TIE = 1e-12


@dataclass(frozen=True, slots=True)
class Spread:
    """A mean and a median over experiments, each with its bootstrap 95 % interval."""

    mean: float
    mean_95: tuple[float, float]
    median: float
    median_95: tuple[float, float]
    largest: float


@dataclass(frozen=True, slots=True)
class Pairing:
    """One measure of two methods, experiment by experiment; less is better."""

    wins: int
    """Experiments in which the first method has less."""
    ties: int
    losses: int
    p: float
    """Of the one-sided signed-rank test that the first method has less; 1 if there is no difference at
    all."""
    effect: float
    """Rank-biserial correlation: 1 if the first always has less, −1 if the second does."""
    mean_difference: float

    @property
    def win_share(self) -> float:
        """Wins among all experiments, ties included."""
        return self.wins / (self.wins + self.ties + self.losses)


def spread(values: Sequence[float], seed: int) -> Spread:
    """Mean and median, and how far they would wander over other experiments of the same kind."""
    sample = np.asarray(values, dtype=np.float64)
    rng = np.random.default_rng([seed, 407])
    drawn = sample[rng.integers(len(sample), size=(RESAMPLES, len(sample)))]
    return Spread(
        float(sample.mean()),
        _interval(drawn.mean(axis=1)),
        float(np.median(sample)),
        _interval(np.median(drawn, axis=1)),
        float(sample.max()),
    )


def _interval(estimates: NDArray[np.float64]) -> tuple[float, float]:
    low, high = np.quantile(estimates, (0.025, 0.975))
    return float(low), float(high)


def pairing(first: Sequence[float], second: Sequence[float]) -> Pairing:
    """Compare two methods over the same experiments."""
    from scipy.stats import rankdata, wilcoxon

    difference = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    difference[np.abs(difference) <= _TIE] = 0.0
    wins, losses = int((difference < 0).sum()), int((difference > 0).sum())
    apart = difference[difference != 0.0]
    p, effect = 1.0, 0.0
    if len(apart):
        p = float(wilcoxon(apart, alternative="less").pvalue)
        ranks = rankdata(np.abs(apart))
        effect = float((ranks[apart < 0].sum() - ranks[apart > 0].sum()) / ranks.sum())
    return Pairing(wins, len(difference) - wins - losses, losses, p, effect, float(difference.mean()))
