"""Blocks of time: rows packed for the shuffle, and unpacked into a matrix of windows by topics.

A covariance needs all topics of a second in one place, and files may overlap, so rows must be shuffled. As
rows that is slow. Packed as arrays in the narrowest type, a hundred thousand of them are one row of Spark's,
and the shuffle moves bytes. See docs/internals/pipelines.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mangrove.pipelines.rates.rates_file import COUNTS, MICROSECONDS, IntArray, RatesBatch

FloatArray = NDArray[np.float64]

# A block's matrix has about this many cells; it is held in memory as doubles.
BLOCK_CELLS = 4_000_000
LONGEST_BLOCK_S = 3600
PIECE_ROWS = 1 << 17


@dataclass(frozen=True, slots=True)
class Periods:
    """Times that count, as sorted, disjoint periods of whole windows, in seconds since 1970."""

    starts_s: tuple[int, ...]
    ends_s: tuple[int, ...]
    window_s: int = 1

    @property
    def windows(self) -> int:
        """How many windows there are."""
        seconds = sum(end - start for start, end in zip(self.starts_s, self.ends_s, strict=True))
        return seconds // self.window_s

    def contains(self, second: IntArray) -> NDArray[np.bool_]:
        """Which of the seconds count."""
        position = np.searchsorted(np.array(self.starts_s, dtype=np.int64), second, side="right") - 1
        ends = np.array([*self.ends_s, 0], dtype=np.int64)
        return np.asarray((position >= 0) & (second < ends[position]))


def block_seconds(topics: int, window_s: int) -> int:
    """Length of a block; depends on nothing but the data's shape, so that every cluster cuts alike."""
    length = max(1, min(LONGEST_BLOCK_S, BLOCK_CELLS // max(topics, 1)) // window_s) * window_s
    return int(length)


Piece = dict[str, object]


def pack(
    batch: RatesBatch, streams: IntArray, stream_count: int, block_s: int, periods: Periods
) -> Iterator[Piece]:
    """Cut a batch into pieces, each of one block. `streams` translates the file's numbers; -1 is unwanted."""
    second = batch.ts_us // MICROSECONDS
    stream = streams[batch.stream]
    keep = np.flatnonzero(periods.contains(second) & (stream >= 0))
    if not len(keep):
        return
    second, stream = second[keep], stream[keep]
    block = second // block_s
    micros = batch.ts_us[keep] - second * MICROSECONDS
    key = (second - block * block_s) * stream_count + stream
    for number in np.unique(block):
        chosen = np.flatnonzero(block == number)
        for start in range(0, len(chosen), PIECE_ROWS):
            part = chosen[start : start + PIECE_ROWS]
            piece: Piece = {"block": int(number), "rows": len(part), "key": narrow(key[part])}
            piece["micros"] = narrow(micros[part]) if micros[part].any() else b""
            for name in COUNTS:
                piece[name] = narrow(batch.counts[name][keep][part])
            yield piece


def narrow(values: IntArray) -> bytes:
    """Non-negative integers as bytes of the narrowest type that holds them all."""
    return values.astype(np.min_scalar_type(int(values.max()))).tobytes()


def wide(data: bytes, rows: int) -> IntArray:
    """The integers that `narrow` packed."""
    if not data:
        return np.zeros(rows, dtype=np.int64)
    return np.frombuffer(data, dtype=f"u{len(data) // rows}").astype(np.int64)


@dataclass(slots=True)
class Sums:
    """What blocks add up to. Sums of whole numbers below 2^53 are exact, so their order does not matter."""

    gram: FloatArray
    """Σ y·yᵀ over windows, with y the messages of a window minus the topic's shift"""
    total: FloatArray
    """Σ y"""
    most: FloatArray
    """largest number of messages of a topic in a window"""
    streams: FloatArray
    """rows, then `COUNTS`, for each stream"""
    windows: int = 0
    repeated: int = 0
    """rows left out because their stream already has a row for that moment"""

    @classmethod
    def empty(cls, topics: int, streams: int) -> Sums:
        """Nothing added yet."""
        return cls(
            np.zeros((topics, topics)),
            np.zeros(topics),
            np.zeros(topics),
            np.zeros((1 + len(COUNTS), streams)),
        )


class BlockSummer:
    """Adds blocks to the sums of a partition."""

    def __init__(self, topic_of_stream: IntArray, shift: FloatArray, block_s: int, periods: Periods) -> None:
        self._topic_of_stream = topic_of_stream
        self._shift = shift
        self._block_s = block_s
        self._periods = periods
        self.sums = Sums.empty(len(shift), len(topic_of_stream))

    def add(self, block: int, pieces: Sequence[Mapping[str, object]]) -> None:
        """Add one block, given all of its pieces in the order of their files."""
        columns = _joined(pieces)
        key, counts = self._distinct(columns)
        streams, topics = len(self._topic_of_stream), len(self._shift)
        stream = key % streams
        self.sums.streams[0] += np.bincount(stream, minlength=streams)
        for row, name in enumerate(COUNTS, start=1):
            self.sums.streams[row] += np.bincount(stream, weights=counts[name], minlength=streams)
        start_s = block * self._block_s
        seconds = np.arange(start_s, start_s + self._block_s, dtype=np.int64)
        counted = self._periods.contains(seconds)
        # Windows tile the counted seconds; number them as they come.
        window_of_second = (np.cumsum(counted) - 1) // self._periods.window_s
        windows = int(counted.sum()) // self._periods.window_s
        cell = window_of_second[key // streams] * topics + self._topic_of_stream[stream]
        counted_messages = np.bincount(cell, weights=counts["msgs_in"], minlength=windows * topics)
        matrix: FloatArray = np.asarray(counted_messages, dtype=np.float64).reshape(windows, topics)
        np.maximum(self.sums.most, matrix.max(axis=0, initial=0.0), out=self.sums.most)
        matrix -= self._shift
        self.sums.gram += matrix.T @ matrix
        self.sums.total += matrix.sum(axis=0)
        self.sums.windows += windows

    def _distinct(self, columns: dict[str, IntArray]) -> tuple[IntArray, dict[str, IntArray]]:
        """One row for each stream and moment: the first, where there are several."""
        key, micros = columns["key"], columns["micros"]
        if micros.any():
            moment = key * MICROSECONDS + micros
            _, first = np.unique(moment, return_index=True)
        else:
            seen = np.bincount(key)
            if int(seen.max()) <= 1:
                return key, columns
            _, first = np.unique(key, return_index=True)
        self.sums.repeated += len(key) - len(first)
        kept = {name: values[first] for name, values in columns.items()}
        return kept["key"], kept


def _joined(pieces: Sequence[Mapping[str, object]]) -> dict[str, IntArray]:
    joined = {}
    for name in ("key", "micros", *COUNTS):
        parts = []
        for piece in pieces:
            data, rows = piece[name], piece["rows"]
            assert isinstance(data, bytes)
            assert isinstance(rows, int)
            parts.append(wide(data, rows))
        joined[name] = np.concatenate(parts)
    return joined
