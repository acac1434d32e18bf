"""The batch form of `slo`: reads, adds up, writes; with a state it reads only what is new."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mangrove.errors import InputError
from mangrove.model.telemetry import BROKER_SAMPLES, DELIVERIES, LINK_SAMPLES, TOPIC_RATES
from mangrove.pipelines.jobs.anomalies import (
    QUEUE_MINUTES,
    SLOW_MINUTES,
    TOPIC_MINUTES,
    anomalies,
    queue_minutes,
    slow_minutes,
    topic_minutes,
)
from mangrove.pipelines.jobs.slo import HOURS, JOB, ROUTE, by_hour, hourly, in_total, plain_quality, worst
from mangrove.pipelines.output import check_output, output_directory, write_json, write_parquet
from mangrove.pipelines.reading.rows import unharmed
from mangrove.pipelines.reading.source import Source, as_source
from mangrove.pipelines.state.following import keep_current
from mangrove.pipelines.state.partial import Partial, Period, Recipe, open_partial, skipped_in
from mangrove.pipelines.state.state import State, open_state, opened_state

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

WORST = 10
STATE_VERSION = 1
READ = (DELIVERIES, TOPIC_RATES, BROKER_SAMPLES, LINK_SAMPLES)
DELIVERED = Recipe(DELIVERIES, tuple(column.name for column in DELIVERIES.columns), hourly, HOURS)
MINUTES = (
    Recipe(TOPIC_RATES, ("ts", "domain", "broker", "topic", "msgs_in"), topic_minutes, TOPIC_MINUTES),
    Recipe(BROKER_SAMPLES, ("ts", "domain", "broker", "slow_consumers"), slow_minutes, SLOW_MINUTES),
    Recipe(LINK_SAMPLES, ("ts", "domain", "peer", "queued_bytes"), queue_minutes, QUEUE_MINUTES),
)


def run(
    spark: SparkSession,
    source: Source | str,
    output: Path,
    target: float,
    *,
    state: Path | State | None = None,
    period: Period | None = None,
) -> dict[str, Any]:
    """Read, compute, write `windows`, `routes`, `anomalies` (Parquet) and `summary.json`.

    With a `state`, only days and domains whose files changed are read; the result is the same.
    """
    check_target(target)
    check_output(output, JOB)
    origin = as_source(source)
    bounds = (period or Period()).require_hours()
    with opened_state(state, JOB, STATE_VERSION, origin) as held:
        delivered = open_partial(spark, origin, DELIVERED, state=held, period=bounds, required=True)
        minutes = [open_partial(spark, origin, recipe, state=held, period=bounds) for recipe in MINUTES]
        if held is not None:
            held.publish()
        assert delivered is not None
        hourly = unharmed(lambda: _hours(delivered.frame(), bounds, target), delivered.rows)
        kept = spark.createDataFrame(hourly)
        routes = in_total(kept, target).orderBy(*ROUTE).toArrow()
        worst_hours = worst(kept, WORST).collect()
        found = unharmed(lambda: _anomalies(minutes, bounds), *(part.rows for part in minutes if part))
        skipped = skipped_in([delivered, *minutes])
    summary = {
        "target": target,
        "windows": hourly.num_rows,
        "routes": [plain_quality(row) for row in routes.to_pylist()],
        "worst_hours": [plain_quality(row.asDict()) for row in worst_hours],
        "anomalies": [] if found is None else found.to_pylist(),
        "skipped": skipped,
    }
    with output_directory(output, JOB) as directory:
        write_parquet(directory / "windows.parquet", hourly)
        write_parquet(directory / "routes.parquet", routes)
        if found is not None:
            write_parquet(directory / "anomalies.parquet", found)
        write_json(directory / "summary.json", summary)
    return summary


def follow(
    spark: SparkSession,
    source: Source | str,
    output: Path,
    target: float,
    state: Path,
    *,
    period: Period | None = None,
    seconds: float | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Keep state and output current while files arrive; the result is that of `run`."""
    check_target(target)
    check_output(output, JOB)
    origin = as_source(source)
    with open_state(state, JOB, STATE_VERSION, origin) as held:

        def once() -> dict[str, Any]:
            return run(spark, origin, output, target, state=held, period=period)

        return keep_current(spark, held, READ, once, seconds=seconds, progress=progress)


def check_target(target: float) -> None:
    """A share of messages, below one: a budget of nothing cannot be spent."""
    if not 0 < target < 1:
        raise InputError(f"--target: {target}", hint="a share of messages above 0 and below 1, e.g. 0.999")


def _hours(hours: DataFrame, period: Period, target: float) -> pa.Table:
    from pyspark.sql import functions as f

    wanted = hours.where(_within(f.unix_seconds("start"), period))
    return by_hour(wanted, target).orderBy("start", *ROUTE).toArrow()


def _anomalies(minutes: list[Partial | None], period: Period) -> pa.Table | None:
    from pyspark.sql import functions as f

    frames = [
        None if part is None else part.frame().where(_within(f.col("second"), period)) for part in minutes
    ]
    found = anomalies(*frames)
    return None if found is None else found.toArrow()


def _within(moment: Column, period: Period) -> Column:
    from pyspark.sql import functions as f

    condition = f.lit(True)
    if period.since_s is not None:
        condition &= moment >= period.since_s
    if period.until_s is not None:
        condition &= moment < period.until_s
    return condition
