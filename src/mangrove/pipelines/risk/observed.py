"""A series of loads against a level: how often it was above, how sure that is, and what the tail says.

Seconds are not independent: a surge lasts. Intervals therefore come from a bootstrap over blocks of time,
each drawn whole, and a level that was never exceeded is bounded by the number of blocks, not of seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mangrove.pipelines.rates.peaks import Periods
from mangrove.planning.empirical import tails
from mangrove.planning.problem.arrays import FloatArray, IntArray

RESAMPLES = 400
INTERVAL = (2.5, 97.5)
# With none among n independent blocks, a share of 3/n is refused at 5 %.
NONE_SEEN = 3.0


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocks of time that hold the windows of the periods: which there are, and windows in each."""

    block_s: int
    numbers: IntArray
    windows: IntArray

    @property
    def total(self) -> int:
        return int(self.windows.sum())

    def place(self, start_s: IntArray) -> IntArray:
        """Places of the blocks of some windows."""
        return np.searchsorted(self.numbers, start_s // self.block_s)


def blocks_of(periods: Periods, block_s: int) -> Blocks:
    """Cut the periods by the clock."""
    parts = [
        np.arange(start, end, periods.window_s, dtype=np.int64) // block_s
        for start, end in zip(periods.starts_s, periods.ends_s, strict=True)
    ]
    numbers, windows = np.unique(np.concatenate(parts), return_counts=True)
    return Blocks(block_s, numbers, windows)


@dataclass(frozen=True, slots=True)
class Share:
    """A probability with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Observed:
    """Loads above a level: the share of windows, and what the tail beyond a threshold says of the level."""

    windows_above: int
    share: Share
    tail: Share | None
    """None with too few windows beyond the threshold to fit"""
    shape: float | None
    most_msg_s: float


def observe(
    start_s: IntArray, loads: FloatArray, level: float, threshold: float, blocks: Blocks, seed: int
) -> Observed:
    """Judge a series; windows that it does not list were below the threshold."""
    rng = np.random.default_rng(seed)
    place = blocks.place(start_s)
    draws = _draws(rng, len(blocks.numbers))
    above = loads > level
    count = int(above.sum())
    counts = np.bincount(place[above], minlength=len(blocks.numbers))
    drawn_windows = draws @ blocks.windows
    shares = (draws @ counts) / np.maximum(drawn_windows, 1)
    low, high = np.percentile(shares, INTERVAL)
    if not count:
        high = min(NONE_SEEN / len(blocks.numbers), 1.0)
    share = Share(count / blocks.total, float(low), float(high))
    tail, shape = _tail(place, loads, level, threshold, blocks, draws)
    return Observed(count, share, tail, shape, float(loads.max(initial=0.0)))


def _tail(
    place: IntArray, loads: FloatArray, level: float, threshold: float, blocks: Blocks, draws: IntArray
) -> tuple[Share | None, float | None]:
    beyond = loads > threshold
    if level < threshold or int(beyond.sum()) < tails.MIN_EXCESSES:
        return None, None
    excess, block = loads[beyond], place[beyond]
    even = np.full(len(excess), 1.0 / blocks.total)
    whole = tails.beyond(excess, threshold, even)
    if whole is None:
        return None, None
    found = []
    for drawn in draws:
        weights = drawn[block] / max(float(drawn @ blocks.windows), 1.0)
        tail = tails.beyond(excess, threshold, weights)
        found.append(0.0 if tail is None else tail.probability(level))
    low, high = np.percentile(found, INTERVAL)
    return Share(whole.probability(level), float(low), float(high)), whole.shape


def _draws(rng: np.random.Generator, blocks: int) -> IntArray:
    """How often each block is drawn, for each resample."""
    drawn = rng.integers(0, blocks, (RESAMPLES, blocks))
    counts = np.zeros((RESAMPLES, blocks), dtype=np.int64)
    np.add.at(counts, (np.arange(RESAMPLES)[:, None], drawn), 1)
    return counts
