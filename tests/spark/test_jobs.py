"""The other jobs on lakes with known parameters, each against a plain computation on the same data."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from mangrove.errors import InputError
from mangrove.lake.writer import LakeWriter
from mangrove.model.telemetry import CALIBRATION_RUNS, LATENCY_BOUNDS_MS, TOPIC_RATES
from mangrove.pipelines.jobs import availability, calibration, cases, report, slo_job, slo_stream
from mangrove.pipelines.jobs.anomalies import anomalies, topic_minutes
from mangrove.pipelines.jobs.profile import Brokers, profile, write_profile
from mangrove.pipelines.reading.rows import open_rows
from mangrove.pipelines.reading.source import as_source
from mangrove.pipelines.synthetic.operations import SyntheticOperations, generate_operations
from mangrove.pipelines.synthetic.rates import SyntheticRates, generate
from mangrove.planning.policies import case_base
from mangrove.planning.problem.document import read_problem
from mangrove.planning.solvers.registry import SolverName

pytestmark = pytest.mark.timeout(300)

HOURS = 12
SPEC = SyntheticOperations(seconds=HOURS * 3600, seed=5, rate=20, late_hour=10, mean_up_s=900.0)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("operations") / "lake"
    generate_operations(SPEC, path)
    generate(SyntheticRates(topics=4, seconds=4 * 3600, seed=5, gap=True, daily=False), path / "rates")
    (path / "rates" / "topic_rates").rename(path / "topic_rates")
    (path / "rates").rmdir()
    for events in list((path / "events").rglob("*.parquet")):
        # The other end, or a recorder that starts anew, sees the same failure in a second of its own.
        told = pq.read_table(events, partitioning=None)
        place = told.schema.get_field_index("ts")
        later = pc.add(told["ts"], pa.scalar(timedelta(seconds=1)))
        pq.write_table(told.set_column(place, "ts", later), events.with_name("again.parquet"))
    damaged = path / "deliveries" / "date=2026-03-02" / "domain=denver" / "half.parquet"
    damaged.write_bytes(next(damaged.parent.glob("samples-*.parquet")).read_bytes()[:5000])
    return path


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("results")


@pytest.fixture(scope="module")
def levels(spark: SparkSession, lake: Path, results: Path) -> dict[str, Any]:
    """What `slo` found: asked for once, looked at by several tests."""
    return slo_job.run(spark, str(lake), results / "slo", target=0.99)


def plain(lake: Path, table: str) -> pd.DataFrame:
    files = sorted(p for p in (lake / table).rglob("*.parquet") if p.name != "half.parquet")
    return pd.concat([pq.read_table(p, partitioning=None).to_pandas() for p in files])


def test_availability_equals_a_plain_count_and_recovers_the_rates(
    spark: SparkSession, lake: Path, results: Path
) -> None:
    summary = availability.run(spark, str(lake), results / "availability")
    rows = {row["component"]: row for row in summary["rows"]}
    assert set(rows) == {f"{d}-edge{n}" for d in ("seattle", "denver") for n in (1, 2)} | {"denver--seattle"}
    samples = plain(lake, "broker_samples").sort_values("ts")
    for name, own in samples.groupby("broker"):
        up = own["reachable"].to_numpy()
        fell = int((~up & np.concatenate([[True], up[:-1]])).sum())
        found = rows[name]
        assert (found["observed_s"], found["down_s"], found["failures"]) == (len(up), int((~up).sum()), fell)
    down = sum(row["down_s"] for row in rows.values())
    failures = sum(row["failures"] for row in rows.values())
    # About 45 failures of each of five components: the mean of 225 exponentials is within 25 %.
    assert down / failures == pytest.approx(SPEC.mean_down_s, rel=0.25)
    up_s = sum(row["observed_s"] - row["down_s"] for row in rows.values())
    assert up_s / failures == pytest.approx(SPEC.mean_up_s, rel=0.25)
    topology = json.loads((results / "availability" / "failures.json").read_text())
    assert topology["edge_failure"][0][:2] == ["denver", "seattle"]
    assert 0.02 < topology["edge_failure"][0][2] < 0.15


def test_slo_equals_a_plain_computation_and_finds_the_bad_hour(lake: Path, levels: dict[str, Any]) -> None:
    summary = levels
    rows = plain(lake, "deliveries")
    for route in summary["routes"]:
        own = rows[rows["domain"] == route["domain"]]
        assert route["delivered"] == own["delivered"].sum()
        assert route["in_time_ratio"] == pytest.approx(own["in_time"].sum() / own["measured"].sum())
        histogram = np.stack(own["latency_histogram"].to_list()).sum(axis=0)
        place = int(np.searchsorted(histogram.cumsum(), 0.99 * histogram.sum()))
        assert route["p99_ms"] == LATENCY_BOUNDS_MS[place]
    denver = next(route for route in summary["routes"] if route["domain"] == "denver")
    # True quantiles of the log-normal latencies, up to the width of a bin.
    assert 20.0 <= denver["p50_ms"] <= 20.0 * 1.26
    true_p99 = 20.0 * np.exp(0.5 * 2.3263)
    assert true_p99 <= denver["p99_ms"] <= true_p99 * 1.26
    worst = summary["worst_hours"][0]
    assert (worst["domain"], worst["start"].hour) == ("seattle", 10)
    assert worst["budget_burn"] > 50 > summary["worst_hours"][1]["budget_burn"]
    assert [Path(each["path"]).name for each in summary["skipped"]] == ["half.parquet"]


def test_silences_and_surges_are_found(
    spark: SparkSession, lake: Path, levels: dict[str, Any], tmp_path: Path
) -> None:
    silent = [each for each in levels["anomalies"] if each["kind"] == "silent_publisher"]
    assert len(silent) == 4
    assert {(each["start"].hour, each["minutes"]) for each in silent} == {(3, 10)}
    assert not [each for each in levels["anomalies"] if each["kind"] == "rate_surge"]
    shutil.copytree(lake / "topic_rates", tmp_path / "topic_rates")
    rates = next((tmp_path / "topic_rates").rglob("rates-010000.parquet"))
    table = pq.read_table(rates, partitioning=None)
    place = table.schema.get_field_index("msgs_in")
    topic = np.array(table.column("topic").to_pylist())
    counts = table.column("msgs_in").to_numpy().copy()
    first_minutes = np.arange(len(counts)) < 4 * 120
    counts[first_minutes & (topic == topic[1])] *= 3
    pq.write_table(table.set_column(place, "msgs_in", pa.array(counts)), rates)
    found = anomalies(
        topic_minutes(open_rows(spark, as_source(str(tmp_path)), TOPIC_RATES).frame), None, None
    )
    assert found is not None
    (surge,) = [each for each in found.toArrow().to_pylist() if each["kind"] == "rate_surge"]
    assert (surge["subject"], surge["start"].hour, surge["minutes"]) == (str(topic[1]), 1, 2)
    assert surge["value"] == pytest.approx(3 * surge["usual"], rel=0.2)


@pytest.mark.usefixtures("levels")
def test_the_stream_writes_the_same_windows_and_goes_on_where_it_stopped(
    spark: SparkSession, lake: Path, results: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "lake"
    for path in sorted((lake / "deliveries").rglob("samples-*.parquet")):
        table = pq.read_table(path, partitioning=None)
        target = copy / path.relative_to(lake)
        target.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table.slice(0, 5 * 3600), target)
    first = slo_stream.stream(spark, str(copy), tmp_path / "out", target=0.99)
    # Five hours have arrived; the watermark is ten minutes behind, so the fifth may still change.
    assert first["windows"] == 2 * 4
    for path in sorted((lake / "deliveries").rglob("samples-*.parquet")):
        table = pq.read_table(path, partitioning=None)
        late = (copy / path.relative_to(lake)).with_name("later.parquet")
        # With some rows that were already there: they must not count twice.
        pq.write_table(table.slice(5 * 3600 - 60), late)
    second = slo_stream.stream(spark, str(copy), tmp_path / "out", target=0.99)
    assert second["windows"] == 2 * (HOURS - 1)
    written = spark.read.parquet(str(tmp_path / "out" / "windows")).orderBy("start", "domain")
    streamed = written.toArrow().to_pandas()
    batch = pq.read_table(results / "slo" / "windows.parquet").to_pandas().sort_values(["start", "domain"])
    batch = batch[batch["start"].dt.hour < HOURS - 1]
    for column in ("delivered", "in_time", "p99_ms", "in_time_ratio"):
        np.testing.assert_allclose(streamed[column].to_numpy(), batch[column].to_numpy(), err_msg=column)


def test_calibrate_recovers_known_parameters(spark: SparkSession, results: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    true = {"fast": (5e-6, 2e-9, 1e-6), "slow": (4e-5, 1e-7, 9e-6)}
    writer = LakeWriter(tmp_path / "lake")
    when = datetime(2026, 3, 2, tzinfo=UTC)
    rows = []
    for kind, (rcv, fltr, tx) in true.items():
        for copies in (1, 4, 16):
            for filters in (0, 1000, 4000):
                for size in (64, 1024):
                    seconds = (rcv + filters * fltr + copies * tx) * rng.normal(1, 0.01)
                    when += timedelta(seconds=1)
                    row = {"ts": when, "domain": "calibration", "broker_type": kind, "message_bytes": size}
                    row |= {"replication": float(copies), "filters": float(filters), "messages": 1000}
                    row |= {"seconds": 1000 * seconds, "processing_time_s": seconds, "cpu_time_s": seconds}
                    rows.append(row)
    writer.add(CALIBRATION_RUNS, rows)
    writer.flush()
    summary = calibration.run(spark, str(tmp_path / "lake"), results / "calibrate")
    models = json.loads((results / "calibrate" / "model.json").read_text())["models"]
    for kind, (rcv, fltr, tx) in true.items():
        assert models[kind]["t_rcv"] == pytest.approx(rcv, rel=0.1)
        assert models[kind]["t_fltr"] == pytest.approx(fltr, rel=0.2)
        assert models[kind]["t_tx"] == pytest.approx(tx, rel=0.05)
    assert {row["message_bytes"] for row in summary["models"]} == {None, 64, 1024}


def test_cases_equal_those_computed_here(spark: SparkSession, results: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    mean = rng.uniform(50, 150, 6)
    document = {
        "items": [f"t{n}" for n in range(6)],
        "mean_rate": mean.tolist(),
        "covariance": np.diag((0.2 * mean) ** 2).tolist(),
        "brokers": ["a", "b", "c"],
        "capacity": [600.0, 500.0, 400.0],
        "constraints": {"max_risk": 0.2},
    }
    (tmp_path / "problem.json").write_text(json.dumps(document))
    summary = cases.run(spark, tmp_path, results / "cases", seed=4)
    base = case_base.decode((results / "cases" / "cases.json").read_bytes())
    problem = read_problem(document, "p").problem
    states = case_base.states(problem, case_base.LOW_LOADS)
    assert base == case_base.build(problem, states, 4, SolverName.AUTO)
    assert summary["cases"] == len(states) == 1 + 3 + 3 + 3
    with pytest.raises(InputError, match="cannot read"):
        cases.run(spark, tmp_path / "nothing", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_report_shows_every_job_that_ran(
    spark: SparkSession, lake: Path, results: Path, tmp_path: Path
) -> None:
    """Runs after the jobs above, on their outputs."""
    without = report.run(results, tmp_path / "page")
    assert without["jobs"] == ["availability", "calibrate", "cases", "slo"]
    assert without["missing"] == ["profile", "load"]
    write_profile(profile(spark, str(lake)), Brokers(("a", "b"), (900.0, 900.0)), results / "profile")
    assert report.run(results, tmp_path / "page")["missing"] == ["load"]
    page = (tmp_path / "page" / "report.html").read_text()
    for heading in ("Workload", "Service levels", "Availability", "Broker model", "Case base", "Worst hours"):
        assert heading in page
    assert page.count("<svg ") == 5
    assert page.count("<canvas ") == 1
    assert "http" not in page.replace("http-equiv", "")
    (tmp_path / "none").mkdir()
    with pytest.raises(InputError, match="holds no output"):
        report.run(tmp_path / "none", tmp_path / "page2")


def test_lakes_without_what_a_job_needs_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    empty = str(tmp_path / "lake")
    with pytest.raises(InputError, match="has no table deliveries"):
        slo_job.run(spark, empty, tmp_path / "out", 0.99)
    with pytest.raises(InputError, match="has no table link_samples"):
        availability.run(spark, empty, tmp_path / "out")
    with pytest.raises(InputError, match="has no table calibration_runs"):
        calibration.run(spark, empty, tmp_path / "out")
    with pytest.raises(InputError, match="does not exist"):
        slo_job.run(spark, str(tmp_path / "nowhere"), tmp_path / "out", 0.99)
    with pytest.raises(InputError, match="--target"):
        slo_job.run(spark, str(tmp_path / "lake"), tmp_path / "out", 1.0)
    assert not (tmp_path / "out").exists()
