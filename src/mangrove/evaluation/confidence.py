"""Means with confidence intervals over the runs of an experiment."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over runs and the half width of its 95 % interval (Student's t); None for one run."""

    mean: float
    half_width: float | None

    def __str__(self) -> str:
        return self.rounded(3)

    def rounded(self, places: int) -> str:
        """The mean, and the interval when there is one, with so many decimal places."""
        spread = "" if self.half_width is None else f"±{self.half_width:.{places}f}"
        return f"{self.mean:.{places}f}{spread}"


def estimate(values: Sequence[float], confidence: float = 0.95) -> Estimate:
    """Mean and half width; the runs are independent."""
    sample = np.asarray(values, dtype=np.float64)
    if len(sample) < 2:
        return Estimate(float(sample.mean()), None)
    spread = float(sample.std(ddof=1)) / math.sqrt(len(sample))
    return Estimate(float(sample.mean()), float(t.ppf((1 + confidence) / 2, len(sample) - 1)) * spread)


def estimate_known(values: Sequence[float]) -> Estimate:
    """The same over the runs that have a value; NaN stands for those that have none."""
    known = [value for value in values if not math.isnan(value)]
    return estimate(known) if known else Estimate(math.nan, None)
