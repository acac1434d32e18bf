"""`utility`: topics that are chronically unwanted: nobody around asks for them, or has a use for them.

A second in which a topic is published in a domain and no broker there hands it out counts against it. So does
the time in which its subscribers, by their own votes, find it (nearly) useless; a topic that nobody has
judged has a utility of one half. What only the gateway saw, of which no sizes are known, does not count:
another domain asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mangrove.errors import InputError
from mangrove.lake.files import MissingTableError
from mangrove.model.telemetry import OPINIONS_S, TOPIC_OPINIONS, TOPIC_RATES
from mangrove.pipelines.output import check_output, output_directory, write_json, write_parquet
from mangrove.pipelines.reading.rows import Rows, open_rows, unharmed
from mangrove.pipelines.reading.source import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

JOB = "utility"
READ = (TOPIC_RATES, TOPIC_OPINIONS)
COLUMNS = ("ts", "domain", "broker", "topic", "msgs_in", "bytes_in", "msgs_out", "subscribers")
JUDGED = ("ts", "domain", "topic", "utility", "subscribers", "offered_msg_s")
LISTED = 100


def wanted(rates: DataFrame) -> DataFrame:
    """`topic_rates` → for each topic of a domain, what was published and how much of it nobody asked for."""
    from pyspark.sql import functions as f

    # The same row may be in several files.
    alone = rates.groupBy("domain", "topic", "broker", "ts").agg(
        *(f.max(name).alias(name) for name in ("msgs_in", "bytes_in", "msgs_out", "subscribers"))
    )
    seconds = alone.groupBy("domain", "topic", "ts").agg(
        *(f.sum(name).alias(name) for name in ("msgs_in", "bytes_in", "msgs_out", "subscribers"))
    )
    seen_here = f.col("bytes_in") > 0
    idle = seen_here & (f.col("subscribers") == 0) & (f.col("msgs_out") == 0)
    lost = f.when(idle, f.col("msgs_in")).otherwise(0)
    return (
        seconds.where(f.col("msgs_in") > 0)
        .groupBy("domain", "topic")
        .agg(
            f.count("*").alias("seconds"),
            f.sum("msgs_in").alias("messages"),
            f.sum("bytes_in").alias("bytes"),
            f.sum(lost).alias("unwanted_messages"),
            f.sum(idle.cast("long")).alias("unwanted_seconds"),
        )
        .withColumn("unwanted_share", f.col("unwanted_messages") / f.col("messages"))
        .orderBy(f.desc("unwanted_messages"), "domain", "topic")
    )


def judged(opinions: DataFrame, useless: float) -> DataFrame:
    """`topic_opinions` → for each topic of a domain, how useful it was found, and for how long useless."""
    from pyspark.sql import functions as f

    rest = [name for name in JUDGED if name not in ("ts", "domain", "topic")]
    alone = opinions.groupBy("domain", "topic", "ts").agg(f.max(f.struct(*rest)).alias("row"))
    rows = alone.select("domain", "topic", "row.*").where(
        (f.col("subscribers") > 0) & f.col("utility").between(0.0, 1.0)
    )
    low = f.col("utility") <= useless
    # Whole numbers, so that the order in which rows are added up does not matter.
    said = f.when(f.col("offered_msg_s").between(0.0, 1e9), f.round(f.col("offered_msg_s") * OPINIONS_S))
    return (
        rows.groupBy("domain", "topic")
        .agg(
            (OPINIONS_S * f.count("*")).alias("judged_seconds"),
            (f.sum(f.round(f.col("utility") * 1e9).cast("long")) / 1e9 / f.count("*")).alias("utility"),
            (OPINIONS_S * f.sum(low.cast("long"))).alias("useless_seconds"),
            f.coalesce(f.sum(f.when(low, said.cast("long"))), f.lit(0)).alias("useless_messages"),
            f.max("subscribers").alias("subscribers"),
        )
        .withColumn("useless_share", f.col("useless_seconds") / f.col("judged_seconds"))
        .orderBy(f.desc("useless_messages"), "domain", "topic")
    )


def run(
    spark: SparkSession,
    source: Source,
    output: Path,
    share: float = 0.95,
    least_seconds: int = 600,
    progress: Callable[[str], None] = lambda _: None,
    *,
    useless: float = 0.1,
) -> dict[str, Any]:
    """Write `topics.parquet`, `opinions.parquet` (all) and `unwanted.json` (by domain).

    A lake without opinions says nothing of uselessness; `opinions.parquet` is then left out.
    """
    if not 0 < share <= 1:
        raise InputError(f"--share: {share:g}", hint="a share of messages, above 0 and up to 1")
    if not 0 <= useless < 0.5:
        raise InputError(f"--useless: {useless:g}", hint="a utility from 0 to below 0.5, the unjudged one's")
    check_output(output, JOB)
    rows = open_rows(spark, source, TOPIC_RATES, columns=COLUMNS)
    progress("looking for topics that nobody asks for")
    found: pa.Table = unharmed(lambda: wanted(rows.frame).toArrow(), rows)
    spoken = _opinions(spark, source)
    told: pa.Table | None = None
    if spoken is not None:
        progress("looking for topics that nobody has a use for")
        told = unharmed(lambda: judged(spoken.frame, useless).toArrow(), spoken)
    topics = found.to_pylist()
    chronic = [
        row for row in topics if row["unwanted_share"] >= share and row["unwanted_seconds"] >= least_seconds
    ]
    opinions = [] if told is None else told.to_pylist()
    disliked = [
        row for row in opinions if row["useless_share"] >= share and row["useless_seconds"] >= least_seconds
    ]
    messages = sum(row["messages"] for row in topics)
    skipped = [*rows.report(), *(() if spoken is None else spoken.report())]
    summary = {
        "topics": len(topics),
        "chronically_unwanted": len(chronic),
        "unwanted_share": sum(r["unwanted_messages"] for r in topics) / messages if messages else 0.0,
        "unwanted": chronic[:LISTED],
        "judged_topics": len(opinions),
        "chronically_useless": len(disliked),
        "useless": disliked[:LISTED],
        "skipped": [{"path": s.path, "reason": s.reason, "rows": s.rows} for s in skipped],
    }
    with output_directory(output, JOB) as directory:
        write_parquet(directory / "topics.parquet", found)
        if told is not None:
            write_parquet(directory / "opinions.parquet", told)
        document: dict[str, Any] = {"share": share, "domains": _by_domain(chronic)}
        if told is not None:
            document["useless"] = _by_domain(disliked)
        write_json(directory / "unwanted.json", document)
        write_json(directory / "summary.json", summary)
    return summary


def _opinions(spark: SparkSession, source: Source) -> Rows | None:
    if not source.has(TOPIC_OPINIONS):
        return None
    try:
        rows = Rows(spark, source, TOPIC_OPINIONS, columns=JUDGED)
    except MissingTableError:
        return None
    return None if rows.empty else rows


def _by_domain(rows: list[dict[str, Any]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row["domain"], []).append(row["topic"])
    return found
