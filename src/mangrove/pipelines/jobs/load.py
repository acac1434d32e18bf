"""`load`: what methods would have done about recorded load, what was done, and what it will be tomorrow.

Partial results belong to one day of one domain: sums of hours in whole numbers, and what triggers would have
started on that day. So they can be kept from run to run, and neither order nor parallelism matters.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mangrove.model.balancing import Balancing
from mangrove.model.telemetry import LOAD_SAMPLES, OFFLOAD_SESSIONS
from mangrove.pipelines.load.forecast import forecast
from mangrove.pipelines.load.replay import by_method, replay
from mangrove.pipelines.load.sessions import SESSIONS, done
from mangrove.pipelines.output import check_output, output_directory, write_json, write_parquet
from mangrove.pipelines.reading.rows import unharmed
from mangrove.pipelines.reading.source import Source, as_source
from mangrove.pipelines.state.following import keep_current
from mangrove.pipelines.state.partial import Partial, Recipe, open_partial, skipped_in
from mangrove.pipelines.state.state import State, open_state, opened_state

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

JOB = "load"
STATE_VERSION = 1
READ = (LOAD_SAMPLES, OFFLOAD_SESSIONS)
COLUMNS = (
    *("ts", "domain", "broker", "role", "reachable", "measured", "input", "output", "matching"),
    *("headroom", "overloaded", "session"),
)
STARTS = "domain string, second bigint, started_by string, broker string, acceptors bigint"
HOUR, START = "hour", "start"
# Loads are added up in whole billionths; what is beyond the bound is no share of a capacity.
UNIT = 1_000_000_000
LARGEST = 1_000_000
PARTIAL = (
    "kind string, broker string, role string, moment bigint, load_sum bigint, loads bigint, worst double, "
    "overload_s bigint, seconds bigint, sessions bigint, started_by string, acceptors bigint"
)


def once(samples: DataFrame, kept: tuple[str, ...] = ()) -> DataFrame:
    """Rows that are in several files count once; `load` is the worst metric's share of its capacity."""
    from pyspark.sql import functions as f

    rest = [name for name in COLUMNS if name not in ("ts", "domain", "broker")]
    alone = samples.groupBy(*kept, "ts", "domain", "broker").agg(f.max(f.struct(*rest)).alias("row"))
    worst = f.greatest(*(f.col(f"row.{name}") for name in ("input", "output", "matching")))
    return alone.select(*kept, "ts", "domain", "broker", "row.*", worst.alias("load"))


def by_hour(samples: DataFrame, kept: tuple[str, ...] = ()) -> DataFrame:
    """Sum, number and worst of the loads of each hour, and its seconds in overload."""
    from pyspark.sql import functions as f

    hour = f.floor(f.unix_timestamp("ts") / 3600).cast("long").alias("moment")
    over = (f.col("measured") == "overload").cast("long")
    known = f.when(f.col("load").between(-LARGEST, LARGEST), f.col("load"))
    return samples.groupBy(*kept, "domain", "broker", "role", hour).agg(
        f.lit(HOUR).alias("kind"),
        f.sum(f.round(known * UNIT).cast("long")).alias("load_sum"),
        f.count(known).alias("loads"),
        f.max(known).alias("worst"),
        f.sum(over).alias("overload_s"),
        f.count("*").alias("seconds"),
        f.count_distinct(f.when(f.col("session") != "", f.col("session"))).alias("sessions"),
    )


def starts(samples: DataFrame, balancing: Balancing, kept: tuple[str, ...] = ()) -> DataFrame:
    """What triggers would have started, a domain's day at a time."""
    from pyspark.sql import functions as f

    names = [part.split()[0] for part in STARTS.split(", ")]

    def replayed(frame: pd.DataFrame) -> pd.DataFrame:
        import pandas as pd

        rows = frame.sort_values(["second", "broker"]).to_dict("records")
        for row in rows:
            row["headroom"] = None if row["headroom"] != row["headroom"] else row["headroom"]
        same = {name: rows[0][name] for name in (*kept, "domain")}
        found = [same | start for start in replay(rows, balancing)]
        return pd.DataFrame(found, columns=[*kept, *names])

    seconds = samples.withColumn("second", f.unix_timestamp("ts")).drop("ts", "load")
    schema = ", ".join([*(f"{name} string" for name in kept), STARTS])
    days = seconds.groupBy(*kept, "domain", f.floor(f.col("second") / 86_400))
    found = days.applyInPandas(replayed, schema)
    return found.withColumnRenamed("second", "moment").withColumn("kind", f.lit(START))


def recipe(balancing: Balancing) -> Recipe:
    """Hours and starts of a table's rows."""

    def compute(rows: DataFrame, kept: tuple[str, ...]) -> DataFrame:
        from pyspark.sql import functions as f

        alone = once(rows, kept)
        found = by_hour(alone, kept).unionByName(starts(alone, balancing, kept), allowMissingColumns=True)
        names = [part.split()[0] for part in PARTIAL.split(", ")]
        return found.select(*kept, "domain", *(f.col(name) for name in names))

    return Recipe(LOAD_SAMPLES, COLUMNS, compute, PARTIAL)


def run(
    spark: SparkSession,
    source: Source | str,
    output: Path,
    balancing: Balancing | None = None,
    progress: Callable[[str], None] = lambda _: None,
    *,
    state: Path | State | None = None,
) -> dict[str, Any]:
    """Write `hours.parquet`, `starts.parquet`, `sessions.parquet` and `forecast.json`.

    With a `state`, only days and domains whose files changed are read; the result is the same.
    """
    chosen = balancing or Balancing()
    check_output(output, JOB)
    origin = as_source(source)
    with opened_state(state, JOB, STATE_VERSION, origin, _settings(chosen)) as held:
        progress("adding up load by hour, replaying triggers")
        loads = open_partial(spark, origin, recipe(chosen), state=held, required=True)
        ended = open_partial(spark, origin, SESSIONS, state=held)
        if held is not None:
            held.publish()
        assert loads is not None
        found: pa.Table = unharmed(lambda: loads.frame().toArrow(), loads.rows)
        moved = _sessions(ended)
        skipped = skipped_in([loads, ended])
    hours, begun = _hours(found), _starts(found)
    forecasts = _forecasts(hours)
    summary = {
        "brokers": len(forecasts),
        "hours": len(hours),
        "overload_s": sum(hours["overload_s"].to_pylist()),
        "sessions": sum(hours["sessions"].to_pylist()),
        "methods": by_method(begun.to_pylist()),
        "done": done(moved.to_pylist()),
        "forecasts": [{k: v for k, v in each.items() if k != "load"} for each in forecasts],
        "skipped": skipped,
    }
    with output_directory(output, JOB) as directory:
        write_parquet(directory / "hours.parquet", hours)
        write_parquet(directory / "starts.parquet", begun)
        write_parquet(directory / "sessions.parquet", moved)
        write_json(directory / "forecast.json", {"brokers": forecasts})
        write_json(directory / "summary.json", summary)
    return summary


def follow(
    spark: SparkSession,
    source: Source | str,
    output: Path,
    state: Path,
    balancing: Balancing | None = None,
    *,
    seconds: float | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Keep state and output current while files arrive; the result is that of `run`."""
    chosen = balancing or Balancing()
    check_output(output, JOB)
    origin = as_source(source)
    with open_state(state, JOB, STATE_VERSION, origin, _settings(chosen)) as held:

        def once() -> dict[str, Any]:
            return run(spark, origin, output, chosen, state=held)

        return keep_current(spark, held, READ, once, seconds=seconds, progress=progress)


def _settings(balancing: Balancing) -> dict[str, str]:
    return {"imbalance": f"{balancing.imbalance:g}"}


def _hours(found: pa.Table) -> pa.Table:
    import pyarrow.compute as pc

    rows = found.filter(pc.equal(found["kind"], HOUR))
    load = pc.divide(pc.divide(rows["load_sum"].cast(pa.float64()), float(UNIT)), rows["loads"])
    known = pc.if_else(pc.greater(rows["loads"], 0), load, pa.scalar(None, pa.float64()))
    names = ("worst", "overload_s", "seconds", "sessions")
    table = pa.table(
        {
            **{name: rows[name] for name in ("domain", "broker", "role")},
            "hour": rows["moment"],
            "load": known,
            **{name: rows[name] for name in names},
        }
    )
    return table.sort_by([(name, "ascending") for name in ("domain", "broker", "role", "hour")])


def _starts(found: pa.Table) -> pa.Table:
    import pyarrow.compute as pc

    rows = found.filter(pc.equal(found["kind"], START)).rename_columns({"moment": "second"})
    table = rows.select([part.split()[0] for part in STARTS.split(", ")])
    return table.sort_by([(name, "ascending") for name in ("domain", "second", "started_by", "broker")])


def _sessions(ended: Partial | None) -> pa.Table:
    names = [part.split()[0] for part in SESSIONS.schema.split(", ")]
    if ended is None:
        kinds = {"bigint": pa.int64(), "double": pa.float64(), "string": pa.string()}
        fields = [part.split() for part in SESSIONS.schema.split(", ")]
        empty = pa.schema([("domain", pa.string()), *((name, kinds[kind]) for name, kind in fields)])
        return empty.empty_table()
    found: pa.Table = unharmed(lambda: ended.frame().select("domain", *names).toArrow(), ended.rows)
    return found.sort_by([(name, "ascending") for name in ("domain", "second", "session")])


def _forecasts(hours: pa.Table) -> list[dict[str, Any]]:
    """The day after the lake's last hour; a broker that has not been seen for a day has none."""
    import pyarrow.compute as pc

    last = pc.max(hours["hour"]).as_py()
    series: dict[tuple[str, str], dict[int, float]] = {}
    for row in hours.to_pylist():
        if row["load"] is not None:
            series.setdefault((row["domain"], row["broker"]), {})[row["hour"]] = row["load"]
    found = []
    for (domain, broker), history in sorted(series.items()):
        guess = forecast(history, last)
        found.append(
            {
                "domain": domain,
                "broker": broker,
                "history_hours": len(history),
                "season_hours": None if guess is None else guess.season_hours,
                "first_hour_s": None if guess is None else 3600 * guess.first_hour,
                "worst_load": None if guess is None else max(guess.load),
                "error": None if guess is None else guess.error,
                "naive_error": None if guess is None else guess.naive_error,
                "load": [] if guess is None else list(guess.load),
                "hour_error": [] if guess is None else list(guess.hour_error),
            }
        )
    return found
