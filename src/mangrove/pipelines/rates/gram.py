"""Sums over all windows: packed rows are shuffled by block of time, each partition adds its blocks in numpy.

The result is the same bytes whatever cluster computes it: blocks and partitions are cut by the data alone,
blocks are added in order of time within a partition, and partitions in their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from mangrove.lake.files import open_filesystem
from mangrove.pipelines.rates.blocks import BlockSummer, FloatArray, Periods, Sums, block_seconds, pack
from mangrove.pipelines.rates.rates_file import COUNTS, IntArray, RatesBatch, RatesFile, Stream
from mangrove.pipelines.rates.scan import file_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from mangrove.lake.files import LakeFile

PARTITIONS = 8
# Pieces are about a megabyte each; Arrow batches of the default ten thousand would not fit in memory.
PIECES_PER_BATCH = 16
ROWS_PER_RESULT = 64

_BINARIES = ("key", "micros", *COUNTS)
PIECES = "block bigint, source bigint, place bigint, rows bigint, " + ", ".join(
    f"{n} binary" for n in _BINARIES
)
_PIECES_ARROW = pa.schema(
    [(name, pa.int64()) for name in ("block", "source", "place", "rows")]
    + [(name, pa.binary()) for name in _BINARIES]
)
RESULTS = "what string, place bigint, data binary"
_RESULTS_ARROW = pa.schema([("what", pa.string()), ("place", pa.int64()), ("data", pa.binary())])


class Plan:
    """What every worker must know. Plain values, sent along with the functions."""

    def __init__(self, streams: list[Stream], shift: FloatArray, periods: Periods) -> None:
        self.streams = streams
        self.shift = shift
        self.periods = periods
        self.topics = topics_of(streams)
        numbers = {topic: number for number, topic in enumerate(self.topics)}
        self.topic_of_stream: IntArray = np.array([numbers[s[0], s[2]] for s in streams], dtype=np.int64)
        self.block_s = block_seconds(len(streams), periods.window_s)

    def pack(
        self, source: int, batches: Iterator[tuple[RatesBatch, list[Stream]]]
    ) -> Iterator[pa.RecordBatch]:
        """Pieces of one source, each a row."""
        numbers = {stream: number for number, stream in enumerate(self.streams)}
        place = 0
        for batch, found in batches:
            translated = np.array([numbers.get(stream, -1) for stream in found], dtype=np.int64)
            for piece in pack(batch, translated, len(self.streams), self.block_s, self.periods):
                row = {**piece, "source": source, "place": place}
                place += 1
                yield pa.RecordBatch.from_pylist([row], schema=_PIECES_ARROW)

    def add_up(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The sums of one partition, whose pieces come in order of block, source and place."""
        summer = BlockSummer(self.topic_of_stream, self.shift, self.block_s, self.periods)
        rows = (row for batch in batches for row in batch.to_pylist())
        any_rows = False
        for block, pieces in groupby(rows, key=lambda row: row["block"]):
            summer.add(block, list(pieces))
            any_rows = True
        if any_rows:
            yield from _emitted(summer.sums)


def topics_of(streams: list[Stream]) -> list[tuple[str, str]]:
    """The (domain, topic) pairs in order."""
    return sorted({(domain, topic) for domain, _, topic in streams})


def packed_files(spark: SparkSession, root: str, files: list[LakeFile], plan: Plan) -> DataFrame:
    """Files → packed pieces."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        filesystem, _ = open_filesystem(root)
        for batch in batches:
            for row in batch.to_pylist():
                file = RatesFile(filesystem, row["path"], row["domain"])
                yield from plan.pack(row["number"], ((each, file.streams) for each in file.batches()))

    return file_frame(spark, files).mapInArrow(read, PIECES)


def add_up(pieces: DataFrame, plan: Plan) -> DataFrame:
    """Packed pieces → sums of each partition, a row of the Gram matrix in each row."""
    spread = pieces.repartition(PARTITIONS, "block").sortWithinPartitions("block", "source", "place")
    return spread.mapInArrow(plan.add_up, RESULTS)


def collect_sums(spark: SparkSession, root: str, files: list[LakeFile], plan: Plan) -> Sums:
    """Run the job and add up the partitions."""
    setting = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(setting)
    spark.conf.set(setting, str(PIECES_PER_BATCH))
    try:
        results = add_up(packed_files(spark, root, files, plan), plan)
        return gathered(results.toLocalIterator(), len(plan.topics), len(plan.streams))
    finally:
        if before is not None:
            spark.conf.set(setting, before)


def gathered(rows: Iterator[Any], topics: int, streams: int) -> Sums:
    """The partitions' sums in one, with what fell in no block left out."""
    sums = Sums.empty(topics, streams)
    for row in rows:
        place, data = row["place"], np.frombuffer(row["data"], dtype=np.float64)
        match row["what"]:
            case "gram":
                sums.gram[place, place:] += data
            case "total":
                sums.total += data
            case "most":
                np.maximum(sums.most, data, out=sums.most)
            case "stream":
                sums.streams[place] += data
            case "counts":
                sums.windows += int(data[0])
                sums.repeated += int(data[1])
    upper = np.triu(sums.gram, 1)
    sums.gram += upper.T
    return sums


def _emitted(sums: Sums) -> Iterator[pa.RecordBatch]:
    rows: list[tuple[str, int, bytes]] = [
        ("counts", 0, np.array([sums.windows, sums.repeated], dtype=np.float64).tobytes()),
        ("total", 0, sums.total.tobytes()),
        ("most", 0, sums.most.tobytes()),
    ]
    rows += [("stream", place, row.tobytes()) for place, row in enumerate(sums.streams)]
    yield _result(rows)
    # The matrix is symmetric: each row from its diagonal on.
    for start in range(0, len(sums.gram), ROWS_PER_RESULT):
        end = min(start + ROWS_PER_RESULT, len(sums.gram))
        yield _result([("gram", place, sums.gram[place, place:].tobytes()) for place in range(start, end)])


def _result(rows: list[tuple[str, int, bytes]]) -> pa.RecordBatch:
    columns = {name: [row[i] for row in rows] for i, name in enumerate(("what", "place", "data"))}
    return pa.RecordBatch.from_pydict(columns, schema=_RESULTS_ARROW)
