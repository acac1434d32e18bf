"""Max-min fairness: the level up to which everybody may have what it wants."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def fair_level(amount: float, wants: ArrayLike) -> float:
    """The level at which the wants, each cut to it, use the amount up.

    Who wants less leaves the rest to the others. If all wants together leave something over, that is added to
    the largest: the level is what one who would take everything could have.
    """
    amount = max(amount, 0.0)
    rising = np.sort(np.maximum(np.asarray(wants, np.float64), 0.0))
    if not len(rising):
        return amount
    before = np.concatenate(([0.0], np.cumsum(rising[:-1])))
    shares = (amount - before) / np.arange(len(rising), 0, -1)
    """What is left for each of those who want as much or more, if the lesser wants are met."""
    above = np.nonzero(rising > shares)[0]
    if len(above):
        return max(0.0, float(shares[above[0]]))
    return float(rising[-1] + max(0.0, amount - rising.sum()))
