"""Sums over the windows of the peak periods, from the cube.

The blocks of all domains that belong to one stretch of time meet in one task; it adds their windows to exact
moments. Tasks hand on their matrices in bands of rows, which are added up in further tasks, so that the
driver receives each number once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from mangrove.pipelines.rates.blocks import COUNTS, EXACT, MINUTE_S, wide
from mangrove.pipelines.reading.days import DAY_S
from mangrove.pipelines.reading.lake_reader import arrow_schema
from mangrove.planning.problem.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from mangrove.pipelines.rates.facts import Stream
    from mangrove.pipelines.rates.peaks import Periods

# The windows that are multiplied at once have about this many cells.
CELLS = 4_000_000
LONGEST_STRETCH_S = 3600
BAND = 128
PARTIAL = "day bigint, what string, place bigint, data binary"
# Work of one task when a day is added up by itself, in cells.
TASK_CELLS = 5 * CELLS
# Fields of sums that are handed on as they are.
SMALL = ("total", "most", "streams", "power", "windows")
BLOCK_COLUMNS = ("domain", "start_s", "length_s", "brokers", "topics", "counts", "minutes")


def topics_of(streams: Sequence[Stream]) -> list[tuple[str, str]]:
    """The (domain, topic) pairs in order."""
    return sorted({(domain, topic) for domain, _, topic in streams})


@dataclass(slots=True)
class Sums:
    """What the windows of the peak periods add up to, x being the messages of a window by topic.

    Sums modulo 2^64 are exact whatever is added to or taken from them in whatever order, so any number of
    workers finds the same bytes (decision 0310).
    """

    gram: IntArray
    """Σx·xᵀ modulo 2^64"""
    total: IntArray
    """Σx"""
    most: IntArray
    """the largest x"""
    streams: IntArray
    """rows, then `COUNTS`, for each stream, over the minutes of the periods"""
    power: FloatArray
    """Σx² as a double: not exact, and only there to see whether the exact sums fit"""
    windows: int
    """windows with any message"""

    @classmethod
    def none(cls, topics: int, streams: int) -> Sums:
        """Of no window."""
        total, most = (np.zeros(topics, dtype=np.int64) for _ in range(2))
        by_stream = np.zeros((1 + len(COUNTS), streams), dtype=np.int64)
        return cls(np.zeros((topics, topics), dtype=np.int64), total, most, by_stream, np.zeros(topics), 0)

    def add(self, counts: IntArray) -> None:
        """Add windows, one in each row. Rows without messages change nothing."""
        busy = counts.any(axis=1)
        if not busy.any():
            return
        counts = counts if busy.all() else counts[busy]
        self.windows += len(counts)
        self.total += counts.sum(axis=0)
        np.maximum(self.most, counts.max(axis=0), out=self.most)
        values = counts.astype(np.float64)
        self.power += np.einsum("wt,wt->t", values, values)
        largest = int(counts.max())
        if len(counts) * largest * largest < EXACT:
            product = values.T @ values  # added by bands, whose integers stay in the cache
            for start in range(0, len(product), BAND):
                rows = slice(start, start + BAND)
                self.gram[rows] += product[rows].astype(np.int64)
        else:
            self._add_digits(counts, largest)

    def _add_digits(self, counts: IntArray, largest: int) -> None:
        """Counts too large for one product of doubles: digit by digit, as on paper."""
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
                    self.gram += both << np.int64(place)


class Adder:
    """Adds blocks to sums. Plain values, sent to the workers along with the function.

    `by_day`: to sums of each day, which must be made of whole windows; else to those of all time.
    """

    def __init__(self, streams: Sequence[Stream], periods: Periods, *, by_day: bool = False) -> None:
        self.by_day = by_day
        self.streams = list(streams)
        self.topics = topics_of(streams)
        self.periods = periods
        self._numbers = {stream: number for number, stream in enumerate(self.streams)}
        numbers = {topic: number for number, topic in enumerate(self.topics)}
        self.topic_of_stream: IntArray = np.array([numbers[d, t] for d, _, t in streams], dtype=np.int64)
        length = min(LONGEST_STRETCH_S, CELLS // max(len(self.topics), 1))
        windows = max(1, length // periods.window_s)
        if by_day:
            windows = next(each for each in range(windows, 0, -1) if DAY_S % (each * periods.window_s) == 0)
        self.stretch_s = windows * periods.window_s
        self.parts = -(-DAY_S * len(self.topics) // TASK_CELLS)

    def add_up(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The sums of one partition, whose blocks come in order of their stretch of time."""
        rows = (row for batch in batches for row in batch.to_pylist())
        for day, of_day in groupby(rows, key=lambda row: row["day"]):
            sums = Sums.none(len(self.topics), len(self.streams))
            for stretch, parts in groupby(of_day, key=lambda row: row["stretch"]):
                sums.add(self._windows(parts, stretch * self.stretch_s, sums.streams))
            yield from emitted(day, sums)

    def _windows(self, parts: Iterable[dict[str, Any]], first_s: int, by_stream: IntArray) -> IntArray:
        """The windows of one stretch; minutes go to the sums of streams."""
        windows = np.zeros((self.stretch_s // self.periods.window_s, len(self.topics)), dtype=np.int64)
        for part in parts:
            names = zip(part["brokers"], part["topics"], strict=True)
            own = np.array([self._numbers[part["domain"], broker, topic] for broker, topic in names])
            self._add_windows(windows, part, first_s, own)
            self._add_minutes(by_stream, part, first_s, own)
        return windows

    def _add_windows(self, windows: IntArray, part: dict[str, Any], first_s: int, own: IntArray) -> None:
        start_s, window_s = part["start_s"], self.periods.window_s
        begin = max(start_s, part["begin_s"], first_s)
        end = min(start_s + part["length_s"], part["end_s"], first_s + self.stretch_s)
        counts = wide(part["counts"], part["length_s"] * len(own)).reshape(part["length_s"], len(own))
        counts = counts[begin - start_s : end - start_s]
        first = (begin - first_s) // window_s
        if window_s > 1:
            bounds = np.arange(begin // window_s, -(-end // window_s)) * window_s - begin
            counts = np.add.reduceat(counts, np.maximum(bounds, 0), axis=0, dtype=np.int64)
        topic = self.topic_of_stream[own]
        target = windows[first : first + len(counts)]
        if len(np.unique(topic)) == len(topic):
            target[:, topic] += counts.astype(np.int64, copy=False)
        else:
            np.add.at(target.T, topic, counts.T)

    def _add_minutes(self, by_stream: IntArray, part: dict[str, Any], first_s: int, own: IntArray) -> None:
        """Minutes of the block that the period touches; each belongs to the stretch in which it begins to."""
        minute_s = part["start_s"] + np.arange(part["length_s"] // MINUTE_S) * MINUTE_S
        begin_s = np.maximum(minute_s, part["begin_s"])
        chosen = (begin_s < part["end_s"]) & (minute_s + MINUTE_S > part["begin_s"])
        chosen &= (begin_s >= first_s) & (begin_s < first_s + self.stretch_s)
        size = len(minute_s) * len(own)
        for plane, data in enumerate(part["minutes"]):
            values = wide(data, size).reshape(len(minute_s), len(own))[chosen]
            by_stream[plane, own] += values.sum(axis=0, dtype=np.int64)


def collect_by_day(cube: DataFrame, adder: Adder) -> dict[int, Sums]:
    """Sums of a cube by day since 1970, added up by Spark; a day without any gets sums of no window.

    All are those of day 0 if the adder does not tell days apart.
    """
    days: dict[int, Sums] = defaultdict(lambda: Sums.none(len(adder.topics), len(adder.streams)))
    for row in combined(partial_sums(cube, adder)).toArrow().to_pylist():
        _fill(days[row["day"]], row["what"], row["place"], row["data"])
    return days


def partial_sums(cube: DataFrame, adder: Adder) -> DataFrame:
    """Blocks that a period touches, brought together by stretch of time and added up by partition.

    Days that are told apart are cut into few parts: each hands on a matrix.
    """
    from pyspark.sql import functions as f

    bounds = (", ".join(map(str, each)) for each in (adder.periods.starts_s, adder.periods.ends_s))
    spans = f.expr("arrays_zip({}, {})".format(*(f"array({each})" for each in bounds)))
    until_s = f.col("start_s") + f.col("length_s")
    touched = f.filter(spans, lambda span: (span["0"] < until_s) & (span["1"] > f.col("start_s")))
    first = f.floor(f.greatest("start_s", "begin_s") / f.lit(adder.stretch_s))
    last = f.floor((f.least(until_s, "end_s") - 1) / f.lit(adder.stretch_s))
    return (
        cube.where("rows > 0")
        .select(*BLOCK_COLUMNS, f.inline(touched).alias("begin_s", "end_s"))
        .withColumn("stretch", f.explode(f.sequence(first, last)))
        .withColumn("day", f.floor(f.col("stretch") * adder.stretch_s / DAY_S) if adder.by_day else f.lit(0))
        .repartition("day", f.pmod("stretch", f.lit(adder.parts)) if adder.by_day else "stretch")
        .sortWithinPartitions("stretch")
        .mapInArrow(adder.add_up, PARTIAL)
    )


def combined(partial: DataFrame) -> DataFrame:
    """Partial sums added up, band by band, where the data are."""

    def add(table: pa.Table) -> pa.Table:
        day, what, place = (table[name][0].as_py() for name in ("day", "what", "place"))
        parts = (_of_kind(what, data.as_py()) for data in table["data"])
        sums = reduce(np.maximum if what == "most" else np.add, parts)
        return pa.Table.from_pylist(
            [{"day": day, "what": what, "place": place, "data": sums.tobytes()}],
            schema=arrow_schema(PARTIAL),
        )

    return partial.groupBy("day", "what", "place").applyInArrow(add, PARTIAL)


def emitted(day: int, sums: Sums) -> Iterator[pa.RecordBatch]:
    """Sums as rows, the upper half of the symmetric matrix in bands."""
    if not sums.windows and not sums.streams.any():
        return
    gram = sums.gram
    for what, place, values in (
        *((what, 0, np.asarray(getattr(sums, what))) for what in SMALL),
        *(("gram", start, gram[start : start + BAND, start:]) for start in range(0, len(gram), BAND)),
    ):
        row = {"day": day, "what": what, "place": place, "data": values.tobytes()}
        yield pa.RecordBatch.from_pylist([row], schema=arrow_schema(PARTIAL))


def _fill(sums: Sums, what: str, place: int, data: bytes) -> None:
    """Put one row of `emitted` in its place."""
    values = _of_kind(what, data)
    if what == "gram":
        band = values.reshape(-1, len(sums.gram) - place)
        sums.gram[place : place + BAND, place:] = band
        sums.gram[place + len(band) :, place : place + len(band)] = band[:, len(band) :].T
    elif what == "windows":
        sums.windows = int(values[0])
    else:
        target = getattr(sums, what)
        target[:] = values.reshape(target.shape)


def _of_kind(what: str, data: bytes) -> Any:
    return np.frombuffer(data, dtype=np.float64 if what == "power" else np.int64)
