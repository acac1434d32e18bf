"""Jobs by the command line on tables of a catalog: the results of the lake, one message for each fault."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer.main
from pyspark.sql import DataFrame, SparkSession

from mangrove.cli.pipeline.pipeline import app
from mangrove.cli.pipeline.session import shared_session
from mangrove.errors import InputError
from mangrove.lake.writer import LakeWriter
from mangrove.model.telemetry import (
    DELIVERIES,
    LATENCY_BINS,
    LOAD_SAMPLES,
    TOPIC_OPINIONS,
    TOPIC_RATES,
    Table,
)
from mangrove.pipelines.reading.rows import open_rows
from mangrove.pipelines.reading.schemas import SPARK_TYPES
from mangrove.pipelines.reading.source import Source
from mangrove.pipelines.run.session_keeper import SessionKeeper
from mangrove.pipelines.session.settings import SparkSettings
from mangrove.pipelines.spark_session import RunningSession

pytestmark = pytest.mark.timeout(900)

START = datetime(2026, 3, 2, 23, 58, tzinfo=UTC)
MIDNIGHT = datetime(2026, 3, 3, tzinfo=UTC)
DATABASE = "tables_test"
ODD = "missing columns: domain; column ts is string, not timestamp"
READ = (TOPIC_RATES, TOPIC_OPINIONS, LOAD_SAMPLES, DELIVERIES)


def second(when: datetime, number: int) -> Iterator[tuple[Table, dict[str, Any]]]:
    at = {"ts": when, "domain": "north"}
    for topic in ("a", "b"):
        counts = {"msgs_in": 10 + number % 7, "bytes_in": 900, "msgs_out": 10, "bytes_out": 900}
        yield TOPIC_RATES, {**at, "broker": "head", "topic": topic, "subscribers": 1, "filters": 1, **counts}
        if number % 5 == 0:
            figures = {"utility": 0.04 if topic == "b" else 0.8, "importance": 1.0, "offered_msg_s": 10.0}
            who = {"subscribers": 2, "publishers": 1, "protected": False, "allowed_msg_s": None}
            yield TOPIC_OPINIONS, {**at, "topic": topic, **figures, **who}
    for broker in ("edge1", "edge2"):
        states = {"role": "edge", "reachable": True, "state": "low", "measured": "low", "overloaded": ""}
        share = {"input": 0.2, "output": None, "matching": 0.1 + number / 1000, "headroom": 0.5}
        yield LOAD_SAMPLES, {**at, "broker": broker, **states, **share, "pending_bytes": 0, "session": ""}
    histogram = np.bincount([20 + number % 3], minlength=LATENCY_BINS).tolist()
    counts = {"delivered": 1, "measured": 1, "in_time": 1, "dropped": 0, "latency_histogram": histogram}
    names = {"topic": "a", "route": "*>north", "contract": ">", "deadline_ms": None}
    yield DELIVERIES, {**at, **names, **counts}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four minutes over midnight."""
    path = tmp_path_factory.mktemp("tables") / "lake"
    writer = LakeWriter(path)
    for number in range(240):
        for table, row in second(START + timedelta(seconds=number), number):
            writer.add(table, [row])
    writer.close()
    return path


@pytest.fixture(scope="module")
def tables(spark: SparkSession, lake: Path) -> Iterator[str]:
    """The lake's tables as Parquet tables of a database, by day and domain, and views that are not sound."""
    spark.sql(f"CREATE DATABASE {DATABASE}")
    for table in READ:
        name = f"{DATABASE}.{table.name}"
        kinds = ", ".join(f"{column.name} {SPARK_TYPES[column.type]}" for column in table.columns)
        spark.sql(
            f"CREATE TABLE {name} ({kinds}, date date) USING parquet PARTITIONED BY (date, domain) "
            f"LOCATION '{lake / table.name}'"
        )
        spark.sql(f"MSCK REPAIR TABLE {name}")
        spark.sql(f"CREATE VIEW {DATABASE}.no_{table.name} AS SELECT * FROM {name} WHERE domain = 'none'")
        rest = ", ".join(column.name for column in table.columns if column.name not in ("ts", "domain"))
        spark.sql(f"CREATE VIEW {DATABASE}.odd_{table.name} AS SELECT string(ts) AS ts, {rest} FROM {name}")
    yield DATABASE
    spark.sql(f"DROP DATABASE {DATABASE} CASCADE")


class ThisSession(SessionKeeper):
    """The tests' session, for commands that run in this process."""

    def __init__(self, spark: SparkSession) -> None:
        super().__init__(SparkSettings.checked(), lambda _: None)
        self._running = RunningSession(spark, "local[2]", None, None)


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Options of `risk`: a plan for the two topics."""
    folder = tmp_path_factory.mktemp("plan")
    problem = {"items": ["a", "b"], "mean_rate": [12.0, 13.0], "covariance": [[4.0, 0.0], [0.0, 4.0]]}
    problem |= {"brokers": ["x", "y"], "capacity": [16.0, 40.0], "domain": "north"}
    (folder / "problem.json").write_text(json.dumps(problem))
    (folder / "plan.json").write_text(json.dumps({"allocation": {"x": ["a"], "y": ["b"]}}))
    files = ("--plan", str(folder / "plan.json"), "--problem", str(folder / "problem.json"))
    return (*files, "--peak", "all", "--block", "10")


def run(spark: SparkSession, job: str, output: Path, *options: str) -> dict[str, bytes]:
    with shared_session(ThisSession(spark)):
        command = typer.main.get_command(app)
        command.main([job, "--json", "--output", str(output), *options], standalone_mode=False)
    return {path.name: path.read_bytes() for path in output.iterdir()}


def named(database: str, *tables: Table, prefix: str = "") -> tuple[str, ...]:
    return tuple(
        part for table in tables for part in ("--table", f"{table.name}={database}.{prefix}{table.name}")
    )


JOBS = {
    "utility": (TOPIC_RATES, TOPIC_OPINIONS),
    "load": (LOAD_SAMPLES,),
    "risk": (TOPIC_RATES,),
    "slo": (DELIVERIES,),
}


@pytest.mark.parametrize("job", ["utility", "load", "risk"])
def test_commands_give_the_same_bytes_from_tables(
    spark: SparkSession, lake: Path, tables: str, plan: tuple[str, ...], tmp_path: Path, job: str
) -> None:
    more = {"risk": plan, "utility": ("--least-seconds", "60")}.get(job, ())
    from_tables = run(spark, job, tmp_path / "tables", *named(tables, *JOBS[job]), *more)
    assert from_tables == run(spark, job, tmp_path / "lake", "--input", str(lake), *more)
    summary = json.loads(from_tables["summary.json"])
    assert summary["skipped"] == []
    if job == "utility":
        assert [row["topic"] for row in summary["useless"]] == ["b"]
        assert json.loads(from_tables["unwanted.json"])["useless"] == {"north": ["b"]}


def test_one_message_for_each_fault_of_a_table_and_nothing_is_written(
    spark: SparkSession,
    tables: str,
    plan: tuple[str, ...],
    tmp_path: Path,
) -> None:
    for job, read in JOBS.items():
        more = plan if job == "risk" else ()
        for prefix, reason in (
            ("no_", f"the table {tables}.no_{read[0].name} has no row to work on"),
            ("odd_", f"the table {tables}.odd_{read[0].name} cannot be read as {read[0].name}: {ODD}"),
            ("other_", f"the session's catalog has no table {tables}.other_{read[0].name}"),
        ):
            with pytest.raises(InputError) as caught:
                run(spark, job, tmp_path / "out", *named(tables, read[0], prefix=prefix), *more)
            assert reason in caught.value.message, job
            assert caught.value.hint
    with pytest.raises(InputError, match="needs a lake"):
        run(spark, "load", tmp_path / "out", *named(tables, LOAD_SAMPLES), "--state", str(tmp_path / "s"))
    with pytest.raises(InputError, match="follows a lake"):
        run(spark, "load", tmp_path / "out", *named(tables, LOAD_SAMPLES), "--stream")
    assert not list(tmp_path.iterdir())


def executed(frame: DataFrame) -> str:
    """The plan that an action carried out."""
    frame.collect()
    return str(frame._jdf.queryExecution().executedPlan().toString())


def test_the_executed_plan_prunes_days_domains_and_columns(spark: SparkSession, tables: str) -> None:
    source = Source(None, {TOPIC_RATES.name: f"{tables}.{TOPIC_RATES.name}"})
    since_s = MIDNIGHT.timestamp() + 100
    rows = open_rows(
        spark,
        source,
        TOPIC_RATES,
        columns=("ts", "domain", "topic", "msgs_in"),
        domains=["north"],
        since_s=since_s,
    )
    assert rows.frame.count() == 2 * 20
    plan = executed(rows.frame.groupBy("topic").sum("msgs_in"))
    (scan,) = [line for line in plan.partition("Initial Plan")[0].splitlines() if "FileScan parquet" in line]
    read = scan.partition("ReadSchema: ")[2]
    assert read == "struct<ts:timestamp,topic:string,msgs_in:bigint>"
    filters = scan.partition("PartitionFilters: ")[2].partition("PushedFilters: ")
    assert "2026-03-03" in filters[0]
    assert "north" in filters[0]
    assert "GreaterThanOrEqual(ts,2026-03-03" in filters[2]
