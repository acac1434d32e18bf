"""`slo`: what was promised and what was kept. In-time delivery by topic and route, hour by hour.

One core function serves the batch job and the stream: `by_window`. It merges latency histograms, so the
quantiles of an hour, or of a month, are those of all its messages, up to the width of a bin (a factor of
1.26). A dropped message is not in time. Messages whose latency was not measured count as those that were.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mangrove.model.telemetry import LATENCY_BINS, LATENCY_BOUNDS_MS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

JOB = "slo"
QUANTILES = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99, "p999_ms": 0.999}
ROUTE = ("domain", "topic", "route", "contract", "deadline_ms")
SUMS = ("delivered", "measured", "in_time", "dropped")
LATE_BY = "10 minutes"


def by_window(deliveries: DataFrame, target: float, window: str = "1 hour") -> DataFrame:
    """`deliveries` → one row for each route and window; the same for a batch and for a stream."""
    from pyspark.sql import functions as f

    key = ["ts", "domain", "topic", "route"]
    if deliveries.isStreaming:
        distinct = deliveries.withWatermark("ts", LATE_BY).dropDuplicatesWithinWatermark(key)
    else:
        distinct = deliveries.dropDuplicates(key)
    bins = [
        f.sum(f.get("latency_histogram", f.lit(place))).alias(f"bin{place}") for place in range(LATENCY_BINS)
    ]
    summed = distinct.groupBy(f.window("ts", window).alias("window"), *ROUTE).agg(
        *(f.sum(name).alias(name) for name in SUMS), *bins
    )
    named = summed.select(
        f.col("window.start").alias("start"),
        f.col("window.end").alias("end"),
        *ROUTE,
        *SUMS,
        f.array(*(f.coalesce(f"bin{place}", f.lit(0)) for place in range(LATENCY_BINS))).alias("histogram"),
    )
    return with_quality(named, target)


def in_total(windows: DataFrame, target: float) -> DataFrame:
    """Windows → one row for each route over all of them."""
    from pyspark.sql import functions as f

    bins = [f.sum(f.get("histogram", f.lit(place))).alias(f"bin{place}") for place in range(LATENCY_BINS)]
    summed = windows.groupBy(*ROUTE).agg(
        *(f.sum(name).alias(name) for name in SUMS), f.count("*").alias("windows"), *bins
    )
    merged = f.array(*(f.col(f"bin{place}") for place in range(LATENCY_BINS))).alias("histogram")
    return with_quality(summed.select(*ROUTE, *SUMS, "windows", merged), target)


def with_quality(frame: DataFrame, target: float) -> DataFrame:
    """Add the in-time ratio, the burn of the error budget (1: exactly used up) and latency quantiles."""
    from pyspark.sql import functions as f

    of_arrived = f.when(f.col("measured") > 0, f.col("in_time") / f.col("measured")).otherwise(1.0)
    all_messages = f.col("delivered") + f.col("dropped")
    ratio = f.when(all_messages > 0, f.col("delivered") * of_arrived / all_messages)
    frame = frame.withColumn("in_time_ratio", ratio)
    frame = frame.withColumn("budget_burn", (1.0 - f.col("in_time_ratio")) / f.lit(1.0 - target))
    for name, share in QUANTILES.items():
        frame = frame.withColumn(name, quantile("histogram", share))
    return frame


def quantile(column: str, share: float) -> Column:
    """Upper bound of the bin that the quantile falls in; beyond the last bound, that bound."""
    from pyspark.sql import functions as f

    total = f.aggregate(column, f.lit(0).cast("long"), lambda held, count: held + count)
    start = f.struct(f.lit(0).cast("long").alias("held"), f.lit(0).alias("place"))

    def step(state: Column, count: Column) -> Column:
        """Count the bins whose messages, with all before them, are fewer than the share."""
        held = state["held"] + count
        place = state["place"] + f.when(held < total * share, 1).otherwise(0)
        return f.struct(held.alias("held"), place.alias("place"))

    place = f.aggregate(column, start, step)["place"]
    bounds = f.array(*(f.lit(bound) for bound in (*LATENCY_BOUNDS_MS, LATENCY_BOUNDS_MS[-1])))
    return f.when(total > 0, f.get(bounds, place))


def worst(windows: DataFrame, count: int) -> DataFrame:
    """The windows that burnt most of the budget."""
    from pyspark.sql import functions as f

    late = windows.where(f.col("budget_burn") > 0)
    return late.orderBy(f.desc("budget_burn"), "start", *ROUTE).limit(count)


def plain_quality(row: dict[str, Any]) -> dict[str, Any]:
    """A row without its histogram, for reports."""
    return {name: value for name, value in row.items() if name != "histogram"}
