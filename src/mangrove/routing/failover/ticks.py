"""Weights of links as whole numbers: sums are exact, and all brokers break ties alike (decision 0201)."""

from __future__ import annotations

import math
import sys

import numpy as np

from mangrove.routing.network.geography import Floats

_EXACT = 2.0**53  # whole numbers up to here are exact in a float
NONE = -1
"""No next hop: the destination is the broker itself, or cannot be reached."""


def ticks(weights: Floats, nodes: int) -> Floats:
    """Weights as whole numbers, scaled by a power of ten so that no path's sum exceeds exact arithmetic.

    A power of ten keeps decimal ties: 0.1 + 0.2 equals 0.3 in ticks. Zero becomes one tick.
    """
    heaviest = float(weights.max(initial=0.0))
    if heaviest == 0.0:
        return np.ones_like(weights)
    return np.maximum(np.rint(weights * 10.0 ** _exponent(heaviest, max(nodes, 2) * 2)), 1.0)


def _exponent(heaviest: float, links: int) -> int:
    room = _EXACT / (heaviest * links)
    if 0.0 < room < math.inf:
        return math.floor(math.log10(room))
    # What is at the end of the range of floats is compared by its size alone.
    size = math.log10(_EXACT) - math.log10(heaviest) - math.log10(links)
    return min(math.floor(size), sys.float_info.max_10_exp)
