"""The cube: messages by second and stream, a block of time in each row; everything else is computed from it.

A row is read once. The cube is a small part of the rows' size, so it can be looked at as often as needed
(streams, minutes, peaks, sums), and kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from mangrove.lake.files import LakeFile
from mangrove.pipelines.rates.blocks import (
    BLOCK,
    COUNTS,
    MICROSECONDS,
    PIECE,
    block_seconds,
    blocks_of,
    pieces,
)
from mangrove.pipelines.rates.lake_batches import LakeBatches, readable
from mangrove.pipelines.reading.days import DAY_S
from mangrove.pipelines.reading.lake_reader import arrow_schema
from mangrove.pipelines.reading.lake_scan import Part, part_of
from mangrove.pipelines.reading.rows import Rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Batches = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

ARROW_ATTEMPTS = 2
ARROW = {
    # Rows are packed a batch at a time; pieces and blocks are large, so their batches end by size.
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(1 << 17),
    "spark.sql.execution.arrow.maxBytesPerBatch": str(64 << 20),
}
INITIAL = "spark.sql.adaptive.coalescePartitions.initialPartitionNum"
# More partitions than there is work for are joined by adaptive execution; this many rows are worth one.
ROWS_OF_PARTITION = 400_000
MAX_PARTITIONS = 4096


@contextmanager
def tuned(spark: SparkSession, rows: int) -> Iterator[None]:
    """Spark's settings for large values in few rows, with as many partitions as the data may need."""
    initial = max(32, min(MAX_PARTITIONS, rows // ROWS_OF_PARTITION))
    wanted = {**ARROW, INITIAL: str(initial)}
    before: dict[str, str | None] = {name: spark.conf.get(name, None) for name in wanted}
    for name, new in wanted.items():
        spark.conf.set(name, new)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)


def cube_of(rows: Rows) -> DataFrame:
    """The cube of the rows of `topic_rates` as they are now; ask anew for each attempt to read them.

    The workers read files with Arrow if they can open them. Should that fail twice, the second time without
    the files that proved damaged, Spark's scan has to do.
    """
    batches: Batches
    if readable(rows) and rows.recovered < ARROW_ATTEMPTS:
        files = LakeBatches(rows.source.lake or "", rows.domains, rows.since_s, rows.until_s, in_parts(rows))
        source, batches = files.frame(rows), files.batches
    else:
        source, batches = scanned(rows), iter
    rows_by_second = density(rows.to_read())
    length_s = block_seconds(_seen(source, batches) if rows_by_second is None else rows_by_second)

    def pack(found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches(found):
            yield pa.RecordBatch.from_pylist(list(pieces(batch, length_s)), schema=arrow_schema(PIECE))

    def join(table: pa.Table) -> pa.Table:
        return pa.Table.from_pylist(list(blocks_of(table.to_pylist(), length_s)), schema=arrow_schema(BLOCK))

    return source.mapInArrow(pack, PIECE).groupBy("date", "domain", "start_s").applyInArrow(join, BLOCK)


def scanned(rows: Rows) -> DataFrame:
    """The rows by Spark's scan, with their day: of their directory if all have one, else of their time."""
    from pyspark.sql import functions as f

    if in_parts(rows):
        frame, day = rows.dated, f.unix_date(f.to_date("date"))
    else:
        frame, day = rows.frame, f.floor(f.unix_seconds("ts") / DAY_S)
    return frame.select("ts", "domain", "broker", "topic", *COUNTS, day.cast("int").alias("day"))


def in_parts(rows: Rows) -> bool:
    """Whether every file is in the directory of a day and a domain."""
    return rows.listing is not None and all(part_of(file) is not None for file in rows.files)


def row_count(rows: Rows) -> int:
    """How many rows there are to read; 0: not known."""
    return sum(file.rows for file in rows.to_read())


def density(files: Sequence[LakeFile]) -> float | None:
    """The most rows in a second of any domain, by what footers tell; None if they do not.

    A file that is much denser than the rest of its day and domain counts by itself.
    """
    files = [file for file in files if file.rows]
    if not files or any(file.footer.first_s is None for file in files):
        return None
    together: dict[Part | None, list[LakeFile]] = {}
    for file in files:
        together.setdefault(part_of(file), []).append(file)
    return max(map(_by_second, [*together.values(), *([file] for file in files)]))


def _by_second(files: Sequence[LakeFile]) -> float:
    first_s, last_s = min(f.footer.first_s or 0 for f in files), max(f.footer.last_s or 0 for f in files)
    return sum(file.rows for file in files) / (last_s - first_s + 1)


def _seen(source: DataFrame, batches: Batches) -> float:
    """How dense rows are, by a first look."""

    def look(found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches(found):
            ts_us = batch.column("ts").cast(pa.int64()).to_numpy()
            seconds = int(ts_us.max() - ts_us.min()) // MICROSECONDS + 1
            yield pa.RecordBatch.from_pydict({"rows_by_second": [len(ts_us) / seconds]})

    seen = source.mapInArrow(look, "rows_by_second double").limit(1).collect()
    return float(seen[0][0]) if seen else 0.0
