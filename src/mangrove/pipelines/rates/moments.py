"""Exact sums of whole numbers: Σx and Σx·xᵀ modulo 2^64.

Sums modulo 2^64 are exact whatever is added to or taken from them in whatever order, so any number of workers
finds the same bytes. What is wanted in the end, the second moment about a whole number near the mean, is
exact as long as it fits in 63 bits, however far the raw moment has gone around (decision 0310).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
# Doubles hold every whole number up to here.
EXACT = 1 << 53


class Moments:
    """Σx, Σx·xᵀ and the largest x of the windows added so far, for a number of topics."""

    def __init__(self, topics: int) -> None:
        self.total: IntArray = np.zeros(topics, dtype=np.int64)
        self.most: IntArray = np.zeros(topics, dtype=np.int64)
        self.power: FloatArray = np.zeros(topics)
        """Σx² as a double: not exact, and only there to see whether the exact sums fit"""
        self.windows = 0
        """windows in which there was any message"""
        self._gram: IntArray = np.zeros((topics, topics), dtype=np.int64)
        self._pending: FloatArray = np.zeros((topics, topics))
        self._bound = 0

    def add(self, counts: IntArray) -> None:
        """Add windows, one in each row. Rows without messages change nothing."""
        busy = counts.any(axis=1)
        if not busy.any():
            return
        counts = counts if busy.all() else counts[busy]
        self.windows += len(counts)
        self.total += counts.sum(axis=0)
        np.maximum(self.most, counts.max(axis=0), out=self.most)
        largest = int(counts.max())
        bound = len(counts) * largest * largest
        if bound >= EXACT:
            self._add_long(counts, largest)
            return
        if self._bound + bound >= EXACT:
            self._settle()
        self._bound += bound
        values = counts.astype(np.float64)
        product = values.T @ values
        self.power += np.diag(product)
        self._pending += product

    @property
    def gram(self) -> IntArray:
        """Σx·xᵀ modulo 2^64, as signed integers."""
        self._settle()
        return self._gram

    def _settle(self) -> None:
        if self._bound:
            self._gram += self._pending.astype(np.int64)
            self._pending[:] = 0.0
            self._bound = 0

    def _add_long(self, counts: IntArray, largest: int) -> None:
        """Counts too large for one product of doubles: digit by digit, as on paper."""
        self.power += (counts.astype(np.float64) ** 2).sum(axis=0)
        bits = (53 - len(counts).bit_length()) // 2
        digits = [
            ((counts >> place) & ((1 << bits) - 1)).astype(np.float64)
            for place in range(0, largest.bit_length(), bits)
        ]
        for high, one in enumerate(digits):
            for low, other in enumerate(digits[: high + 1]):
                place = bits * (high + low)
                if place < 64:
                    product = (one.T @ other).astype(np.int64)
                    both = product if high == low else product + product.T
                    self._gram += both << np.int64(place)


def second_moment(gram: IntArray, total: IntArray, windows: int, centre: IntArray) -> FloatArray:
    """Σ(x − c)·(x − c)ᵀ over `windows` windows, those without messages included. Overwrites `gram`."""
    for start in range(0, len(gram), 256):
        rows = slice(start, start + 256)
        gram[rows] -= np.multiply.outer(centre[rows], total - windows * centre)
        gram[rows] -= np.multiply.outer(total[rows], centre)
    return gram.astype(np.float64)


def too_large(power: FloatArray, total: IntArray, windows: int) -> NDArray[np.bool_]:
    """Topics whose second moment about the mean may not fit in 63 bits."""
    spread = power - total.astype(np.float64) ** 2 / max(windows, 1)
    return np.asarray(spread >= float(1 << 62))
