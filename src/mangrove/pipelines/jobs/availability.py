"""`availability`: how often brokers, links and domains fail and how long repair takes, for routing.

Only seconds that were observed count: a recorder that was away says nothing. A component that was never seen
to fail is not infallible: half a failure of average length is added to each one's account.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mangrove.lake.files import Skipped
from mangrove.model.telemetry import BROKER_SAMPLES, EVENTS, LINK_SAMPLES
from mangrove.pipelines.output import output_directory, write_json, write_parquet
from mangrove.pipelines.reading.optional_tables import rows_if_there

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

JOB = "availability"
# Length of a repair that nobody has seen yet.
ASSUMED_REPAIR_S = 60.0
# Samples further apart than this are separate stretches of observation.
GAP_S = 60


def states(brokers: DataFrame | None, links: DataFrame | None) -> DataFrame:
    """Samples → (kind, component, ts, up). A link is down if either end says so, a domain with its head."""
    from pyspark.sql import functions as f

    parts = []
    if brokers is not None:
        heads = brokers.where(f.col("role") == "head")
        parts.append(_states("broker", brokers, f.col("broker"), "reachable"))
        parts.append(_states("domain", heads, f.col("domain"), "reachable"))
    if links is not None:
        ends = f.array_sort(f.array("domain", "peer"))
        parts.append(_states("link", links, f.concat_ws("--", ends), "up"))
    joined = parts[0]
    for part in parts[1:]:
        joined = joined.unionByName(part)
    return joined


def availability(samples: DataFrame, down_events: DataFrame | None = None) -> DataFrame:
    """(kind, component, ts, up) → one row for each component.

    `down_events` (component, events) knows of failures too short for a sample.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    by_second = samples.groupBy("kind", "component", f.date_trunc("second", "ts").alias("ts")).agg(
        f.bool_and("up").alias("up")
    )
    order = Window.partitionBy("kind", "component").orderBy("ts")
    before, seconds = f.lag("up").over(order), f.unix_timestamp("ts")
    apart = seconds - f.lag(seconds).over(order)
    # A sample stands for the time since the one before it, and for a second after a gap.
    stretch = f.when(apart.isNull() | (apart > GAP_S), 1).otherwise(apart)
    marked = by_second.select(
        "kind",
        "component",
        stretch.alias("stretch_s"),
        f.when(f.col("up"), 0).otherwise(stretch).alias("down_s"),
        (~f.col("up") & f.coalesce(before, f.lit(True))).cast("long").alias("fell"),
    )
    counted = marked.groupBy("kind", "component").agg(
        f.sum("stretch_s").alias("observed_s"), f.sum("down_s").alias("down_s"), f.sum("fell").alias("fell")
    )
    if down_events is not None:
        counted = counted.join(down_events, "component", "left")
    else:
        counted = counted.withColumn("events", f.lit(0).cast("long"))
    failures = f.greatest("fell", f.coalesce("events", f.lit(0)))
    counted = counted.withColumn("failures", failures)
    every = Window.partitionBy(f.lit(0))
    repair = f.sum("down_s").over(every) / f.sum("failures").over(every)
    typical = f.when(f.sum("failures").over(every) > 0, repair).otherwise(ASSUMED_REPAIR_S)
    return counted.select(
        "kind",
        "component",
        "observed_s",
        "down_s",
        "failures",
        (f.col("down_s") / f.col("observed_s")).alias("unavailability"),
        ((f.col("down_s") + 0.5 * typical) / (f.col("observed_s") + typical)).alias("failure_probability"),
        f.when(f.col("failures") > 0, f.col("down_s") / f.col("failures")).alias("mean_repair_s"),
        f.when(f.col("failures") > 0, (f.col("observed_s") - f.col("down_s")) / f.col("failures")).alias(
            "mean_up_s"
        ),
    ).orderBy("kind", "component")


def down_events(events: DataFrame) -> DataFrame:
    """Events → failures of each component."""
    from pyspark.sql import functions as f

    downs = events.where(f.col("kind").isin("broker_down", "link_down"))
    # Both ends of a link report its failure.
    once = downs.select(f.col("subject").alias("component"), "kind", f.date_trunc("second", "ts").alias("ts"))
    return once.distinct().groupBy("component").agg(f.count("*").alias("events"))


def failures_document(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What routing reads of the rows: probabilities of domains and links, in the format of a topology.

    Brokers within a domain are no nodes of the overlay; theirs stay in the table of all rows.
    """
    return {
        "node_failure": {r["component"]: r["failure_probability"] for r in rows if r["kind"] == "domain"},
        "edge_failure": [
            [*r["component"].split("--"), r["failure_probability"]] for r in rows if r["kind"] == "link"
        ],
    }


def run(spark: SparkSession, lake: str, output: Path) -> dict[str, Any]:
    """Read, compute, write `availability.parquet` and `failures.json` (for `route paths --failures`)."""
    skipped: list[Skipped] = []
    brokers = rows_if_there(spark, lake, BROKER_SAMPLES, skipped)
    links = rows_if_there(spark, lake, LINK_SAMPLES, skipped, required=brokers is None)
    events = rows_if_there(spark, lake, EVENTS, skipped)
    found = availability(states(brokers, links), None if events is None else down_events(events)).toArrow()
    rows = found.to_pylist()
    summary = {
        "components": len(rows),
        "failures": sum(row["failures"] for row in rows),
        "rows": rows,
        "skipped": [{"path": s.path, "reason": s.reason, "rows": s.rows} for s in skipped],
    }
    with output_directory(output, JOB) as directory:
        write_parquet(directory / "availability.parquet", found)
        write_json(directory / "failures.json", failures_document(rows))
        write_json(directory / "summary.json", summary)
    return summary


def _states(kind: str, samples: DataFrame, component: Column, up: str) -> DataFrame:
    from pyspark.sql import functions as f

    return samples.select(
        f.lit(kind).alias("kind"), component.alias("component"), "ts", f.col(up).alias("up")
    )
