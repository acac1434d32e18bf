"""One file of `topic_rates` as numpy arrays, a batch at a time, with its faults counted.

Strings never become Python objects row by row: Arrow hands out dictionary codes, and each (domain, broker,
topic) that occurs is looked up once for each batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
from numpy.typing import NDArray

from mangrove.lake.schemas import ARROW
from mangrove.model.telemetry import ColumnType
from mangrove.pipelines.reading.lake_reader import open_parquet, to_type

IntArray = NDArray[np.int64]
Stream = tuple[str, str, str]
"""(domain, broker, topic)"""

BATCH_ROWS = 1 << 17
COUNTS = ("msgs_in", "bytes_in", "msgs_out", "bytes_out", "subscribers", "filters")
MICROSECONDS = 1_000_000


@dataclass(slots=True)
class Faults:
    """Rows of a file that are not as they should be."""

    incomplete: int = 0
    """left out: no time, topic or count"""
    negative: int = 0
    """left out: a negative count, as a reset counter leaves behind"""
    backwards: int = 0
    """kept: their time is before that of an earlier row of the same stream"""


@dataclass(slots=True)
class RatesBatch:
    """Rows as columns; `stream` holds indices into the file's list of streams."""

    ts_us: IntArray
    stream: IntArray
    counts: dict[str, IntArray]


@dataclass(slots=True)
class RatesFile:
    """Reads a file; `streams` and `faults` grow while the batches are taken."""

    filesystem: pafs.FileSystem
    path: str
    domain: str | None
    wanted: tuple[str, ...] = COUNTS
    streams: list[Stream] = field(default_factory=list)
    faults: Faults = field(default_factory=Faults)
    _index: dict[Stream, int] = field(default_factory=dict)
    _latest_us: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def batches(self) -> Iterator[RatesBatch]:
        """The file's good rows."""
        texts = ["broker", "topic"] if self.domain is not None else ["domain", "broker", "topic"]
        with open_parquet(self.filesystem, self.path, read_dictionary=texts) as source:
            for batch in source.iter_batches(BATCH_ROWS, columns=["ts", *texts, *self.wanted]):
                if taken := self._take(batch, texts):
                    yield taken

    def _take(self, batch: pa.RecordBatch, texts: list[str]) -> RatesBatch | None:
        batch = self._complete(batch)
        if not batch.num_rows:
            return None
        ts = to_type(batch.column("ts"), ARROW[ColumnType.TIMESTAMP])
        ts_us = ts.cast(pa.int64()).to_numpy(zero_copy_only=False)
        stream = self._streams_of(batch, texts)
        counts = {name: batch.column(name).cast(pa.int64()).to_numpy() for name in self.wanted}
        negative = np.zeros(len(ts_us), dtype=bool)
        for values in counts.values():
            negative |= values < 0
        if negative.any():
            self.faults.negative += int(negative.sum())
            keep = ~negative
            ts_us, stream = ts_us[keep], stream[keep]
            counts = {name: values[keep] for name, values in counts.items()}
        if not len(ts_us):
            return None
        self._note_backwards(ts_us, stream)
        return RatesBatch(ts_us, stream, counts)

    def _complete(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if not any(column.null_count for column in batch.columns):
            return batch
        keep = None
        for column in batch.columns:
            valid = pc.is_valid(column)
            keep = valid if keep is None else pc.and_(keep, valid)
        complete = batch.filter(keep)
        self.faults.incomplete += batch.num_rows - complete.num_rows
        return complete

    def _streams_of(self, batch: pa.RecordBatch, texts: list[str]) -> IntArray:
        code = np.zeros(batch.num_rows, dtype=np.int64)
        values: list[Any] = []
        for name in texts:
            column = batch.column(name)
            if not pa.types.is_dictionary(column.type):
                column = column.dictionary_encode()
            dictionary = column.dictionary.cast(pa.string()).to_pylist()
            code = code * len(dictionary) + column.indices.to_numpy(zero_copy_only=False)
            values.append(dictionary)
        # Codes are small integers, so a table is cheaper than sorting.
        size = int(np.prod([len(v) for v in values]))
        if size <= 1 << 22:
            present = np.flatnonzero(np.bincount(code, minlength=size))
            table = np.zeros(size, dtype=np.int64)
            table[present] = [self._number(int(each), values) for each in present]
            return np.asarray(table[code])
        present, inverse = np.unique(code, return_inverse=True)
        numbers = np.array([self._number(int(each), values) for each in present], dtype=np.int64)
        return np.asarray(numbers[inverse])

    def _number(self, code: int, values: list[Any]) -> int:
        parts = []
        for dictionary in reversed(values):
            code, position = divmod(code, len(dictionary))
            parts.append(dictionary[position])
        texts = list(reversed(parts))
        if self.domain is not None:
            texts.insert(0, self.domain)
        stream = (texts[0], texts[1], texts[2])
        number = self._index.get(stream)
        if number is None:
            number = self._index[stream] = len(self.streams)
            self.streams.append(stream)
        return number

    def _note_backwards(self, ts_us: IntArray, stream: IntArray) -> None:
        """Count rows earlier than one before them of the same stream."""
        grown = np.full(len(self.streams), np.iinfo(np.int64).min, dtype=np.int64)
        grown[: len(self._latest_us)] = self._latest_us
        self._latest_us = grown
        in_order = bool((np.diff(ts_us) >= 0).all())
        if in_order and bool((ts_us >= grown[stream]).all()):
            grown[stream] = ts_us  # of repeated indices the last one stays, which is the latest here
            return
        order = np.argsort(stream, kind="stable")
        ts_sorted, stream_sorted = ts_us[order], stream[order]
        starts = np.flatnonzero(np.diff(stream_sorted, prepend=-1))
        for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
            times, own = ts_sorted[start:end], stream_sorted[start]
            before = np.maximum.accumulate(np.concatenate([grown[own : own + 1], times]))
            self.faults.backwards += int((times < before[:-1]).sum())
            grown[own] = before[-1]
