"""Weighted means over the last few periods (ePEER §4.4.1.1, with weights that sum to one)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

PUBLISHED_WEIGHTS = (0.3, 0.7)
"""For a window of two, the older first; the thesis gives no others."""


@cache
def weights(window: int) -> tuple[float, ...]:
    """Weights for a window, the oldest first: the published ones for two, else in proportion to 1, 2, …, N.

    The thesis divides by N as well, which halves every value; divided by their sum, the mean of a constant is
    that constant.
    """
    if window == len(PUBLISHED_WEIGHTS):
        return PUBLISHED_WEIGHTS
    total = window * (window + 1) / 2
    return tuple(place / total for place in range(1, window + 1))


def smoothed(values: Sequence[float], window: int) -> float:
    """The weighted mean of the last values, the oldest first; fewer than a window weigh as its newest do."""
    recent = values[-window:]
    if len(recent) == 1:
        return recent[0]
    used = weights(window)[-len(recent) :]
    return sum(map(_product, used, recent)) / sum(used)


def _product(weight: float, value: float) -> float:
    return weight * value
