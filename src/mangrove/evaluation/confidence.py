"""Means with confidence intervals over the runs of an experiment."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over runs with the half width of its 95 % confidence interval (Student's t); 0 for one run."""

    mean: float
    half_width: float

    def __str__(self) -> str:
        return f"{self.mean:.3f}±{self.half_width:.3f}"


def estimate(values: Sequence[float], confidence: float = 0.95) -> Estimate:
    """Mean and half width; the runs are independent."""
    sample = np.asarray(values, dtype=np.float64)
    if len(sample) < 2:
        return Estimate(float(sample.mean()), 0.0)
    spread = float(sample.std(ddof=1)) / math.sqrt(len(sample))
    return Estimate(float(sample.mean()), float(t.ppf((1 + confidence) / 2, len(sample) - 1)) * spread)
