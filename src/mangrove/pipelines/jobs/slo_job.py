"""The batch and the streaming form of `slo`: thin readers and writers around the same core."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mangrove.errors import InputError
from mangrove.lake.files import Skipped, list_table
from mangrove.model.telemetry import BROKER_SAMPLES, DELIVERIES, LINK_SAMPLES, TOPIC_RATES
from mangrove.pipelines.jobs.anomalies import bottlenecks, topic_anomalies
from mangrove.pipelines.jobs.slo import JOB, by_window, in_total, plain_quality, worst
from mangrove.pipelines.output import MARKER, check_output, output_directory, write_json, write_parquet
from mangrove.pipelines.reading.optional_tables import rows_if_there
from mangrove.pipelines.reading.schemas import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WORST = 10
RATE_COLUMNS = ("ts", "domain", "broker", "topic", "msgs_in")


def run(spark: SparkSession, lake: str, output: Path, target: float) -> dict[str, Any]:
    """Read, compute, write `windows`, `routes`, `anomalies` (Parquet) and `summary.json`."""
    check_target(target)
    skipped: list[Skipped] = []
    deliveries = rows_if_there(spark, lake, DELIVERIES, skipped, required=True)
    assert deliveries is not None
    windows = by_window(deliveries, target).orderBy("start", "domain", "topic", "route")
    hourly = windows.toArrow()
    kept = spark.createDataFrame(hourly)
    routes = in_total(kept, target).orderBy("domain", "topic", "route").toArrow()
    rates = rows_if_there(spark, lake, TOPIC_RATES, skipped, columns=RATE_COLUMNS)
    brokers = rows_if_there(spark, lake, BROKER_SAMPLES, skipped)
    links = rows_if_there(spark, lake, LINK_SAMPLES, skipped)
    anomalies = _anomalies(rates, brokers, links)
    found = [] if anomalies is None else anomalies.to_pylist()
    summary = {
        "target": target,
        "windows": hourly.num_rows,
        "routes": [plain_quality(row) for row in routes.to_pylist()],
        "worst_hours": [plain_quality(row.asDict()) for row in worst(kept, WORST).collect()],
        "anomalies": found,
        "skipped": [{"path": s.path, "reason": s.reason, "rows": s.rows} for s in skipped],
    }
    with output_directory(output, JOB) as directory:
        write_parquet(directory / "windows.parquet", hourly)
        write_parquet(directory / "routes.parquet", routes)
        if anomalies is not None:
            write_parquet(directory / "anomalies.parquet", anomalies)
        write_json(directory / "summary.json", summary)
    return summary


def stream(
    spark: SparkSession, lake: str, output: Path, target: float, *, seconds: float | None = None
) -> dict[str, Any]:
    """The same over files as they arrive: appends finished hours to `OUTPUT/windows`.

    Where it got to is kept in `OUTPUT/_checkpoint`: a run that is stopped and started again goes on there and
    writes no hour twice. Without `seconds` it takes what is there and ends; else it runs for so long.
    """
    check_target(target)
    check_output(output, f"{JOB}-stream")
    listing = list_table(lake, DELIVERIES).require()
    output.mkdir(parents=True, exist_ok=True)
    (output / MARKER).write_text(f"{JOB}-stream\n")
    source = (
        spark.readStream.schema(spark_schema(DELIVERIES))
        # A damaged file must not end the stream; the batch job names it.
        .option("ignoreCorruptFiles", "true")
        .option("recursiveFileLookup", "true")
        .parquet(f"{lake.rstrip('/')}/{DELIVERIES.name}")
    )
    writer = (
        by_window(source, target)
        .writeStream.format("parquet")
        .outputMode("append")
        .option("path", str(output / "windows"))
        .option("checkpointLocation", str(output / "_checkpoint"))
    )
    query = (
        writer.trigger(availableNow=True) if seconds is None else writer.trigger(processingTime="5 seconds")
    ).start()
    try:
        query.awaitTermination(None if seconds is None else int(seconds))
    finally:
        query.stop()
    written = spark.read.parquet(str(output / "windows")) if _any(output / "windows") else None
    return {
        "target": target,
        "windows": 0 if written is None else written.count(),
        "skipped": [{"path": s.path, "reason": s.reason, "rows": s.rows} for s in listing.skipped],
    }


def check_target(target: float) -> None:
    """A share of messages, below one: a budget of nothing cannot be spent."""
    if not 0 < target < 1:
        raise InputError(f"--target: {target}", hint="a share of messages above 0 and below 1, e.g. 0.999")


def _anomalies(rates: DataFrame | None, brokers: DataFrame | None, links: DataFrame | None) -> Any:
    parts = [topic_anomalies(rates)] if rates is not None else []
    jammed = bottlenecks(brokers, links)
    parts += [jammed] if jammed is not None else []
    if not parts:
        return None
    joined = parts[0]
    for part in parts[1:]:
        joined = joined.unionByName(part)
    return joined.orderBy("start", "kind", "domain", "subject").toArrow()


def _any(directory: Path) -> bool:
    return directory.is_dir() and any(directory.glob("*.parquet"))
