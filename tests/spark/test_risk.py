"""A plan against a history with heavy tails: the job against a plain computation on the same rates."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from mangrove.errors import InputError
from mangrove.evaluation.heavy_tails import Setting, problem_of, traffic
from mangrove.lake.schemas import arrow_schema
from mangrove.lake.writer import write_whole
from mangrove.model.telemetry import TOPIC_RATES
from mangrove.pipelines.jobs import risk as job
from mangrove.pipelines.rates.peaks import Periods
from mangrove.pipelines.reading.rows import open_rows
from mangrove.pipelines.reading.source import lake as lake_source
from mangrove.pipelines.risk.plans import read_plan
from mangrove.pipelines.risk.scenario_sample import scenario_sample
from mangrove.pipelines.risk.topic_items import topic_items
from mangrove.pipelines.risk.windows import COLUMNS
from mangrove.planning.empirical.sampling import sampled
from mangrove.planning.judgement.assessment import assess
from mangrove.planning.problem.arrays import FloatArray

pytestmark = pytest.mark.timeout(300)

SETTING = Setting(topics=12, brokers=3, days=1, held_out_days=0, peak_s=1800, shocks_per_hour=20.0)
START_S = int(datetime(2026, 3, 2, 9, tzinfo=UTC).timestamp())
RATES = traffic(3, SETTING, range(1))
WHERE = [topic % 3 for topic in range(12)]


def rows_of(rates: FloatArray, start_s: int) -> pa.Table:
    topics, seconds = rates.shape
    topic = np.tile(np.arange(topics), seconds)
    counts = rates.T.reshape(-1).astype(np.int64)
    ones = np.ones(len(topic), dtype=np.int64)
    names = np.array([f"topic{number + 1}" for number in range(topics)])
    ts = np.repeat(np.arange(start_s, start_s + seconds), topics) * 1_000_000
    columns = [
        pa.array(ts).cast(pa.timestamp("us", tz="UTC")),
        pa.array(["denver"] * len(topic)),
        pa.array(["denver-edge1"] * len(topic)),
        pa.array(names[topic]),
        pa.array(counts),
        pa.array(counts * 10),
        pa.array(counts),
        pa.array(counts * 10),
        pa.array(ones),
        pa.array(ones),
    ]
    schema = arrow_schema(TOPIC_RATES)
    return pa.table(columns, names=schema.names).replace_schema_metadata(schema.metadata)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rates in six files, a quarter of one file once more in another, and a damaged file."""
    path = tmp_path_factory.mktemp("risk") / "lake"
    folder = path / TOPIC_RATES.name / "date=2026-03-02" / "domain=denver"
    folder.mkdir(parents=True)
    for number in range(6):
        part = rows_of(RATES[:, number * 300 : (number + 1) * 300], START_S + number * 300)
        write_whole(part, folder / f"rates-{number}.parquet")
    write_whole(part.slice(0, 900), folder / "late.parquet")
    (folder / "damaged.parquet").write_bytes((folder / "rates-0.parquet").read_bytes()[:2000])
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A problem and a plan for it."""
    folder = tmp_path_factory.mktemp("plan")
    problem = problem_of(RATES, SETTING)
    assert problem.capacity_msg_s is not None
    document = {
        "items": list(problem.items),
        "mean_rate": problem.mean_rate_msg_s.tolist(),
        "covariance": problem.covariance.tolist(),
        "brokers": list(problem.brokers),
        "capacity": problem.capacity_msg_s.tolist(),
        "domain": "denver",
    }
    (folder / "problem.json").write_text(json.dumps(document))
    allocation = {
        broker: [item for item, place in zip(problem.items, WHERE, strict=True) if place == number]
        for number, broker in enumerate(problem.brokers)
    }
    (folder / "plan.json").write_text(json.dumps({"allocation": allocation}))
    return folder / "plan.json", folder / "problem.json"


def broker_loads(rates: FloatArray) -> FloatArray:
    return np.stack([rates[np.array(WHERE) == broker].sum(axis=0) for broker in range(3)])


def test_the_job_counts_what_a_plain_sum_counts(
    spark: SparkSession, lake: Path, files: tuple[Path, Path], tmp_path: Path
) -> None:
    plan = read_plan(*files)
    settings = job.RiskSettings(block_s=60, tail_share=0.05)
    summary = job.run(spark, lake_source(str(lake)), plan, tmp_path / "risk", settings)
    loads = broker_loads(RATES)
    predicted = assess(plan.problem, WHERE).loads
    assert summary["windows"] == 1800
    assert summary["repeated_rows"] == 900
    assert any("damaged" in each["path"] for each in summary["skipped"])
    for row, load, judged in zip(summary["brokers"], loads, predicted, strict=True):
        over = load > row["limit_msg_s"]
        assert row["overloaded_windows"] == int(over.sum())
        assert row["observed"]["value"] == pytest.approx(over.mean())
        assert row["observed"]["low"] <= row["observed"]["value"] <= row["observed"]["high"]
        assert row["mean_msg_s"] == pytest.approx(load.mean())
        assert row["deviation_msg_s"] == pytest.approx(load.std(ddof=1))
        assert row["most_msg_s"] == load.max()
        assert row["predicted"] == pytest.approx(judged.risk)
        # The problem was made from this history, so both normal predictions agree.
        assert row["normal_of_history"] == pytest.approx(judged.risk, rel=1e-3)
    # Shocks are what the normal model does not know.
    assert summary["misjudged_brokers"]
    worst = max(summary["brokers"], key=lambda row: row["observed"]["value"])
    assert worst["verdict"] == "too low"
    assert worst["factor"] > 1
    assert sum(each["share"] for each in worst["blamed"]) <= 1 + 1e-9
    for row in summary["misjudged_items"]:
        rates = RATES[plan.problem.items.index(row["item"])]
        assert row["observed"]["value"] == pytest.approx((rates > row["level_msg_s"]).mean())
        assert row["factor"] == pytest.approx(row["observed"]["value"] / 1e-3)
    table = pq.read_table(tmp_path / "risk" / "brokers.parquet")
    assert table.column("broker").to_pylist() == list(plan.problem.brokers)
    assert pq.read_table(tmp_path / "risk" / "items.parquet").num_rows == 12
    assert json.loads((tmp_path / "risk" / "summary.json").read_text()) == json.loads(json.dumps(summary))


def test_partitions_and_repetition_do_not_change_the_result(
    spark: SparkSession, lake: Path, files: tuple[Path, Path], tmp_path: Path
) -> None:
    plan = read_plan(*files)
    settings = job.RiskSettings(block_s=60, window_s=10)
    results = []
    for partitions in ("1", "5"):
        spark.conf.set("spark.sql.shuffle.partitions", partitions)
        results.append(job.run(spark, lake_source(str(lake)), plan, tmp_path / partitions, settings))
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    assert results[0] == results[1]
    windows = broker_loads(RATES).reshape(3, 180, 10).mean(axis=2)
    for row, load in zip(results[0]["brokers"], windows, strict=True):
        assert row["overloaded_windows"] == int((load > row["limit_msg_s"]).sum())


def test_scenarios_are_those_of_a_history_in_memory(
    spark: SparkSession, lake: Path, files: tuple[Path, Path]
) -> None:
    plan = read_plan(*files)
    rows = open_rows(spark, lake_source(str(lake)), TOPIC_RATES, columns=COLUMNS)
    periods = Periods((START_S,), (START_S + 1800,))
    mean = RATES.mean(axis=1)
    found = scenario_sample(rows.frame, plan.topics, periods, mean, 200, seed=1)
    expected = sampled(RATES, 200, seed=1)
    assert found.count == 200
    assert found.weights.sum() == pytest.approx(1.0)
    assert sorted(found.weights)[:100] == pytest.approx([1 / 1800] * 100)
    # The extreme windows are the same ones; the others are drawn.
    extreme = found.rates_msg_s[:, found.weights < 1 / 1700]
    assert extreme.T.tolist() == expected.rates_msg_s[:, expected.weights < 1 / 1700].T.tolist()
    columns = {tuple(column) for column in RATES.T}
    assert all(tuple(column) in columns for column in found.rates_msg_s.T)
    whole = scenario_sample(rows.frame, plan.topics, periods, mean, 5000, seed=1)
    assert whole.rates_msg_s.tolist() == RATES.tolist()
    with pytest.raises(InputError, match="--scenarios"):
        scenario_sample(rows.frame, plan.topics, periods, mean, 5, seed=1)


def test_bad_input_is_named(
    spark: SparkSession, lake: Path, files: tuple[Path, Path], tmp_path: Path
) -> None:
    plan, problem = files
    with pytest.raises(InputError, match="does not carry the figures"):
        read_plan(plan, None)
    (tmp_path / "no.json").write_text('{"items": []}')
    with pytest.raises(InputError, match="no allocation"):
        read_plan(tmp_path / "no.json", problem)
    (tmp_path / "half.json").write_text('{"allocation": {"broker1": ["topic1"], "other": []}}')
    with pytest.raises(InputError, match="no broker 'other'"):
        read_plan(tmp_path / "half.json", problem)
    late = job.RiskSettings(since_s=START_S + 10 * 86400.0)
    with pytest.raises(InputError):
        job.run(spark, lake_source(str(lake)), read_plan(plan, problem), tmp_path / "out", late)
    short = job.RiskSettings(block_s=100_000)
    with pytest.raises(InputError, match="blocks of"):
        job.run(spark, lake_source(str(lake)), read_plan(plan, problem), tmp_path / "out", short)
    assert not (tmp_path / "out").exists()
    copied = tmp_path / "mine"
    shutil.copytree(lake, copied)
    with pytest.raises(InputError, match="holds files"):
        job.run(spark, lake_source(str(lake)), read_plan(plan, problem), copied)


def test_topics_of_items() -> None:
    document: dict[str, Any] = {"topics": {"a": ["x", "y"], "z@north": ["z"], "z@south": ["z"]}}
    found = topic_items(document, ["a", "z@north", "z@south"], "file")
    assert set(found.rows) == {("", "x", 0), ("", "y", 0), ("north", "z", 1), ("south", "z", 2)}
    assert topic_items({"domain": "d"}, ["q"], "file").rows == (("", "q", 0),)
    with pytest.raises(InputError, match="two items"):
        topic_items({"topics": {"a": ["x"], "b": ["x"]}}, ["a", "b"], "file")
