"""Rows that are in the lake twice: a cheap test for them, and their removal where there are any.

A row describes a second, so the rows of one key in one minute are as many as the different seconds among
them, unless some are repeated. That takes one small aggregation of the key's columns; removing repeats
compares whole rows and is done only in the hours that fail the test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mangrove.model.telemetry import Table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

HOUR_S = 3600
# More hours than this are not named one by one.
MANY = 2000

Hours = frozenset[tuple[str, int]]


def repeated_hours(frame: DataFrame, table: Table) -> Hours:
    """Domains and hours (seconds since 1970) in which some key of the table may occur twice."""
    from pyspark.sql import functions as f

    second = f.unix_seconds("ts")
    minutes = frame.groupBy(
        *(name for name in table.key if name != "ts"), f.floor(second / 60).alias("minute")
    ).agg(
        f.count("*").alias("rows"),
        f.bit_or(f.expr("shiftleft(1L, cast(pmod(unix_seconds(ts), 60) AS int))")).alias("seconds"),
    )
    doubtful = minutes.where(f.col("rows") > f.bit_count("seconds"))
    hours = doubtful.select("domain", (f.floor(f.col("minute") / 60) * HOUR_S).alias("hour")).distinct()
    return frozenset((row["domain"], row["hour"]) for row in hours.collect())


def once(frame: DataFrame, table: Table, hours: Hours) -> DataFrame:
    """Each key once in these hours; of rows with the same key the greatest counts, in whatever order."""
    from pyspark.sql import functions as f

    if not hours:
        return frame
    doubtful = _among(hours)
    key = [name for name in ("date", *table.key) if name in frame.columns]
    others = [name for name in frame.columns if name not in key]
    single = (
        frame.where(doubtful)
        .groupBy(*key)
        .agg(f.max(f.struct(*others)).alias("kept"))
        .select(*key, *(f.col(f"kept.{name}").alias(name) for name in others))
    )
    return frame.where(~doubtful).unionByName(single)


def without_repeats(frame: DataFrame, table: Table) -> DataFrame:
    """Each key of the table once."""
    return once(frame, table, repeated_hours(frame, table))


def _among(hours: Hours) -> Column:
    from pyspark.sql import functions as f

    if len(hours) > MANY:
        return f.lit(True)
    hour = f.floor(f.unix_seconds("ts") / HOUR_S) * HOUR_S
    condition = f.lit(False)
    for domain in sorted({domain for domain, _ in hours}):
        own = sorted(start for name, start in hours if name == domain)
        condition |= (f.col("domain") == domain) & hour.isin(*own)
    return condition
