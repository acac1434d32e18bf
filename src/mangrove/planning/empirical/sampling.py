"""Which windows of a long history stand for all of it: the extreme ones each, the others by a sample.

The excess of a window is what its items carry above their means, summed over the items that are above. No
set of items exceeds its own mean by more, so a window of small excess overloads nobody with that much room,
and those of large excess decide about risk whatever the allocation. Half of the sample are the windows of
largest excess, each counted as itself; the other half are drawn evenly from the rest and stand for them.
"""

from __future__ import annotations

import numpy as np

from mangrove.planning.empirical.scenarios import Scenarios
from mangrove.planning.problem.arrays import FloatArray, IntArray


def excess_of(counts: FloatArray, mean: FloatArray) -> FloatArray:
    """Excess of windows, `counts[item, window]`."""
    return np.asarray(np.maximum(counts - mean[:, None], 0.0).sum(axis=0), dtype=np.float64)


def chosen_windows(excess: FloatArray, count: int, seed: int) -> tuple[IntArray, FloatArray]:
    """Places of at most `count` windows, in order, and the probability that each stands for."""
    windows = len(excess)
    if windows <= count:
        return np.arange(windows), np.full(windows, 1.0 / max(windows, 1))
    extreme = (count + 1) // 2
    order: IntArray = np.argsort(-excess, kind="stable")
    drawn = np.random.default_rng(seed).choice(order[extreme:], size=count - extreme, replace=False)
    places = np.concatenate([order[:extreme], drawn])
    weights = weights_of(windows, extreme, count - extreme)
    by_time: IntArray = np.argsort(places, kind="stable")
    return places[by_time], weights[by_time]


def weights_of(windows: int, extreme: int, drawn: int) -> FloatArray:
    """Probability that each window of a sample stands for: first the extreme ones, then the drawn ones."""
    rest = windows - extreme
    each = np.concatenate([np.ones(extreme), np.full(drawn, rest / max(drawn, 1))])
    return np.asarray(each / windows, dtype=np.float64)


def sampled(counts: FloatArray, count: int, seed: int, window_s: float = 1.0) -> Scenarios:
    """Scenarios from a history in memory, `counts[item, window]`."""
    places, weights = chosen_windows(excess_of(counts, counts.mean(axis=1)), count, seed)
    return Scenarios(np.ascontiguousarray(counts[:, places]) / window_s, weights)
