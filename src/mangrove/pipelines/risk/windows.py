"""Windows of the peak periods with the messages of every item, one row of Spark's for each window.

All messages of a window come together in one shuffle, as three arrays: that is a few bytes for each row of
the lake, and what was written twice is found where it meets, in numpy. What follows is a matrix of windows by
items for each batch, as large as the batch and no larger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from mangrove.pipelines.rates.peaks import Periods, Span, find_peaks
from mangrove.planning.problem.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from mangrove.pipelines.risk.topic_items import TopicItems

COLUMNS = ("ts", "domain", "broker", "topic", "msgs_in")
# Cells of a batch's matrix.
BATCH_CELLS = 4_000_000
MAX_BATCH_WINDOWS = 2_000
BATCH_SETTING = "spark.sql.execution.arrow.maxRecordsPerBatch"


@dataclass(frozen=True, slots=True)
class History:
    """What the rows cover: first and last second, rows, and the peak spans of each domain."""

    first_s: int
    last_s: int
    rows: int
    peaks: dict[str, tuple[Span, ...]]


@dataclass(frozen=True, slots=True)
class Windows:
    """A batch: starts of its windows, rates `[window, item]`, and how many rows were left out as repeated."""

    start_s: IntArray
    rates_msg_s: FloatArray
    repeated: int


def history_of(rows: DataFrame, peak: tuple[Span, ...] | None) -> History | None:
    """One aggregation by minute: what is there, and when it is busiest; None without any row."""
    from pyspark.sql import functions as f

    second = f.unix_seconds("ts")
    minutes = (
        rows.where("msgs_in >= 0")
        .groupBy("domain", f.floor(second / 60).cast("long").alias("minute"))
        .agg(
            f.sum("msgs_in").alias("load"),
            f.count("*").alias("rows"),
            f.min(second).alias("first"),
            f.max(second).alias("last"),
        )
        .toArrow()
        .to_pandas()
    )
    if not len(minutes):
        return None
    peaks = {
        str(domain): find_peaks(
            part["minute"].to_numpy(dtype=np.int64), part["load"].to_numpy(dtype=np.float64)
        )
        if peak is None
        else peak
        for domain, part in minutes.groupby("domain")
    }
    return History(int(minutes["first"].min()), int(minutes["last"].max()), int(minutes["rows"].sum()), peaks)


def window_frame(rows: DataFrame, items: TopicItems, periods: Periods) -> DataFrame:
    """`window`, and arrays `key`, `item`, `messages` of what it holds."""
    from pyspark.sql import functions as f

    spark = rows.sparkSession
    second = f.unix_seconds("ts")
    window = (f.floor(second / periods.window_s) * periods.window_s).cast("long")
    known = items.frame(spark).hint("broadcast")
    here = (rows["topic"] == known["topic"]) & (
        (known["of_domain"] == "") | (known["of_domain"] == rows["domain"])
    )
    if items.domain:
        rows = rows.where(f.col("domain") == items.domain)
    numbered = (
        rows.where("msgs_in >= 0")
        .where(_counted(second, periods))
        .join(known, here)
        .select(
            window.alias("window"),
            f.xxhash64("ts", "domain", "broker", rows["topic"]).alias("key"),
            "item",
            f.col("msgs_in").alias("messages"),
        )
    )
    if periods.window_s > 1:
        # A long window of many topics would be one very long row.
        once = numbered.groupBy("window", "key", "item").agg(f.max("messages").alias("messages"))
        summed = once.groupBy("window", "item").agg(f.sum("messages").alias("messages"))
        numbered = summed.select("window", f.col("item").cast("long").alias("key"), "item", "messages")
    return numbered.groupBy("window").agg(
        f.collect_list("key").alias("key"),
        f.collect_list("item").alias("item"),
        f.collect_list("messages").alias("messages"),
    )


def batches_of(batches: Iterator[pa.RecordBatch], items: int, window_s: int) -> Iterator[Windows]:
    """Matrices from the rows of `window_frame`; of a row written twice the larger count is taken."""
    for batch in batches:
        if not batch.num_rows:
            continue
        start = batch.column("window").to_numpy(zero_copy_only=False)
        lists = batch.column("item")
        place = np.repeat(np.arange(batch.num_rows), np.asarray(lists.value_lengths()))
        key = np.asarray(batch.column("key").flatten())
        item = np.asarray(lists.flatten()).astype(np.int64)
        messages = np.asarray(batch.column("messages").flatten()).astype(np.float64)
        if window_s > 1:
            # Keys are items here, and unique within a window.
            key = place * items + item
        distinct, first = np.unique(key, return_index=True)
        repeated = len(key) - len(distinct)
        if repeated:
            order = np.lexsort((-messages, key))
            _, first = np.unique(key[order], return_index=True)
            keep = order[first]
            place, item, messages = place[keep], item[keep], messages[keep]
        cell = place * items + item
        counted = np.bincount(cell, weights=messages, minlength=batch.num_rows * items)
        yield Windows(start, counted.reshape(batch.num_rows, items) / window_s, repeated)


@contextmanager
def bounded_batches(spark: SparkSession, items: int) -> Iterator[None]:
    """So many windows in a batch that its matrix stays small, whatever the number of items."""
    before = spark.conf.get(BATCH_SETTING)
    spark.conf.set(BATCH_SETTING, str(max(1, min(MAX_BATCH_WINDOWS, BATCH_CELLS // max(items, 1)))))
    try:
        yield
    finally:
        spark.conf.set(BATCH_SETTING, str(before))


def mapped(
    frame: DataFrame, items: int, window_s: int, each: Callable[[Windows], pa.RecordBatch], schema: str
) -> DataFrame:
    """Rows that `each` makes of every batch of windows."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[Any]:
        for windows in batches_of(batches, items, window_s):
            yield each(windows)

    return frame.mapInArrow(run, schema)


def _counted(second: Column, periods: Periods) -> Column:
    from pyspark.sql import functions as f

    condition = f.lit(False)
    for start, end in zip(periods.starts_s, periods.ends_s, strict=True):
        condition |= (second >= start) & (second < end)
    return condition
