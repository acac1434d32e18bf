"""`slo`: what was promised and what was kept. In-time delivery by topic and route, hour by hour.

Latency histograms are added up, so the quantiles of an hour, or of a month, are those of all its messages,
up to the width of a bin (a factor of 1.26). Sums of hours are whole numbers and add up: they can be kept from
run to run, and their order does not matter. A dropped message is not in time. Messages whose latency was not
measured count as those that were.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mangrove.model.telemetry import DELIVERIES, LATENCY_BINS, LATENCY_BOUNDS_MS
from mangrove.pipelines.reading.repeats import HOUR_S, without_repeats

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

JOB = "slo"
QUANTILES = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99, "p999_ms": 0.999}
ROUTE = ("domain", "topic", "route", "contract", "deadline_ms")
SUMS = ("delivered", "measured", "in_time", "dropped")
LATE_BY = "10 minutes"
HOURS = (
    "start timestamp, topic string, route string, contract string, deadline_ms double, delivered bigint, "
    "measured bigint, in_time bigint, dropped bigint, histogram array<bigint>"
)


def hourly(deliveries: DataFrame, kept: tuple[str, ...] = ()) -> DataFrame:
    """`deliveries` → sums of each route and hour, apart by the columns `kept`; hours add up."""
    from pyspark.sql import functions as f

    start = f.timestamp_seconds(f.floor(f.unix_seconds("ts") / HOUR_S) * HOUR_S)
    named = without_repeats(deliveries, DELIVERIES).withColumnRenamed("latency_histogram", "histogram")
    summed = named.groupBy(*kept, start.alias("start"), *ROUTE).agg(*_sums(), *_bins())
    return summed.select(*kept, "start", *ROUTE, *SUMS, _histogram())


def by_hour(hours: DataFrame, target: float) -> DataFrame:
    """Sums of hours → one row for each route and hour, with its quality."""
    from pyspark.sql import functions as f

    summed = hours.groupBy("start", *ROUTE).agg(*_sums(), *_bins())
    end = f.timestamp_seconds(f.unix_seconds("start") + HOUR_S).alias("end")
    return with_quality(summed.select("start", end, *ROUTE, *SUMS, _histogram()), target)


def by_window(deliveries: DataFrame, target: float, window: str = "1 hour") -> DataFrame:
    """A stream of `deliveries` → one row for each route and window."""
    from pyspark.sql import functions as f

    distinct = deliveries.withWatermark("ts", LATE_BY).dropDuplicatesWithinWatermark(list(DELIVERIES.key))
    named = distinct.withColumnRenamed("latency_histogram", "histogram")
    summed = named.groupBy(f.window("ts", window).alias("window"), *ROUTE).agg(*_sums(), *_bins())
    start, end = f.col("window.start").alias("start"), f.col("window.end").alias("end")
    return with_quality(summed.select(start, end, *ROUTE, *SUMS, _histogram()), target)


def in_total(windows: DataFrame, target: float) -> DataFrame:
    """Windows → one row for each route over all of them."""
    from pyspark.sql import functions as f

    summed = windows.groupBy(*ROUTE).agg(*_sums(), f.count("*").alias("windows"), *_bins())
    return with_quality(summed.select(*ROUTE, *SUMS, "windows", _histogram()), target)


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


def _sums() -> list[Column]:
    from pyspark.sql import functions as f

    return [f.sum(name).alias(name) for name in SUMS]


def _bins() -> list[Column]:
    from pyspark.sql import functions as f

    return [f.sum(f.get("histogram", f.lit(place))).alias(f"bin{place}") for place in range(LATENCY_BINS)]


def _histogram() -> Column:
    from pyspark.sql import functions as f

    bins = (f.coalesce(f"bin{place}", f.lit(0).cast("long")) for place in range(LATENCY_BINS))
    return f.array(*bins).alias("histogram")
