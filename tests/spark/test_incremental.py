"""`slo`, `availability`, `load` from a state or a stream, for a period, at any parallelism: equal bytes."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from mangrove.errors import InputError, MangroveError
from mangrove.lake.writer import LakeWriter
from mangrove.model.telemetry import LOAD_SAMPLES, OFFLOAD_SESSIONS, REPLACES_KEY
from mangrove.pipelines.jobs import availability, load, slo_job, slo_stream
from mangrove.pipelines.reading.source import parse_source
from mangrove.pipelines.state.partial import Period, parse_period
from mangrove.pipelines.synthetic.operations import SyntheticOperations, generate_operations
from mangrove.pipelines.synthetic.rates import SyntheticRates, generate

pytestmark = pytest.mark.timeout(900)

# From before midnight until after it.
START = datetime(2026, 3, 2, 23, 30, tzinfo=UTC)
SECONDS = 3600
SPEC = SyntheticOperations(seconds=SECONDS, seed=7, rate=3, start=START, mean_up_s=200.0)
MIDNIGHT = int(datetime(2026, 3, 3, tzinfo=UTC).timestamp())

Job = Callable[..., dict[str, Any]]


def slo(spark: SparkSession, source: Any, output: Path, **how: Any) -> dict[str, Any]:
    return slo_job.run(spark, source, output, 0.99, **how)


JOBS: list[Job] = [slo, availability.run]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("nights") / "lake"
    generate_operations(SPEC, path)
    rates = SyntheticRates(topics=3, seconds=SECONDS, seed=7, start=START, daily=False)
    generate(rates, path / "rates")
    (path / "rates" / "topic_rates").rename(path / "topic_rates")
    shutil.rmtree(path / "rates")
    loads = LakeWriter(path)
    for second in range(0, SECONDS, 20):
        for number in (1, 2):
            loads.add(LOAD_SAMPLES, [load_sample(START + timedelta(seconds=second), number, second)])
        if second % 600 == 0:
            loads.add(OFFLOAD_SESSIONS, [session(START + timedelta(seconds=second), second)])
    loads.close()
    return path


def load_sample(when: datetime, number: int, second: int) -> dict[str, Any]:
    share = 0.3 + 0.1 * number + 0.37 * math.sin(second / 300)
    over = share > 0.7
    columns = {"ts": when, "domain": "denver", "broker": f"edge{number}", "role": "edge", "reachable": True}
    states = dict.fromkeys(("state", "measured"), "overload" if over else "low")
    figures = {"input": share / 3, "output": None, "matching": share, "headroom": 0.8 - share}
    rest = {"pending_bytes": 0, "overloaded": "matching" if over else "", "session": "s" if over else ""}
    return columns | states | figures | rest


def session(when: datetime, number: int) -> dict[str, Any]:
    columns = {"ts": when, "domain": "denver", "session": f"denver-1-{number}", "broker": "edge2"}
    words = {"scope": "domain", "metrics": "matching", "outcome": "moved"}
    return columns | words | {"seconds": 3.5, "topics": 1, "subscriptions": 4, "moved": 3, "held_ms": 2.0}


def written(output: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in output.iterdir()}


def repeat(path: Path, first: int, count: int, name: str) -> None:
    """Some rows of a file once more, in another file of the same directory."""
    table = pq.read_table(path, partitioning=None)
    pq.write_table(table.slice(first, count), path.with_name(name))


@pytest.mark.parametrize(
    ("job", "numbers"),
    [
        pytest.param(slo, (1, 3, 16, 64), marks=pytest.mark.soak),
        (availability.run, (1, 3, 16, 64)),
    ],
)
def test_any_number_of_partitions_gives_the_same_bytes(
    spark: SparkSession, lake: Path, tmp_path: Path, job: Job, numbers: tuple[int, ...]
) -> None:
    usual = spark.conf.get("spark.sql.shuffle.partitions")
    found = []
    try:
        for partitions in numbers:
            spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
            # Without coalescing, so that there are really so many.
            spark.conf.set("spark.sql.adaptive.coalescePartitions.enabled", "false")
            job(spark, str(lake), tmp_path / "out")
            found.append(written(tmp_path / "out"))
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", str(usual))
        spark.conf.unset("spark.sql.adaptive.coalescePartitions.enabled")
    assert all(each == found[0] for each in found)
    assert len(found[0]) >= 4


@pytest.mark.parametrize("job", JOBS)
def test_a_state_gives_what_a_full_run_gives(
    spark: SparkSession, lake: Path, tmp_path: Path, job: Job
) -> None:
    copy, state = tmp_path / "lake", tmp_path / "state"
    shutil.copytree(lake, copy)
    later = list(copy.glob("*/date=2026-03-03"))
    for folder in later:
        folder.rename(folder.with_name("." + folder.name))
    job(spark, str(copy), tmp_path / "first", state=state)
    for folder in later:
        folder.with_name("." + folder.name).rename(folder)
    # A new day, and for the day before late and repeated rows, and a file cut short.
    for table in ("deliveries", "broker_samples", "topic_rates"):
        own = sorted((copy / table / "date=2026-03-02").rglob("*.parquet"))[0]
        repeat(own, 100, 60, "again.parquet")
    (own.parent / "cut.parquet").write_bytes(own.read_bytes()[:300])
    job(spark, str(copy), tmp_path / "kept", state=state)
    job(spark, str(copy), tmp_path / "full")
    assert written(tmp_path / "kept") == written(tmp_path / "full")
    assert written(tmp_path / "first") != written(tmp_path / "full")
    # A period over midnight is answered from it; nothing is new, so nothing is computed.
    before = {path: path.stat().st_mtime_ns for path in state.rglob("*.parquet")}
    assert len(before) >= 6
    period = (
        Period(MIDNIGHT - 3600, MIDNIGHT + 3600) if job is slo else Period(MIDNIGHT - 700, MIDNIGHT + 600)
    )
    job(spark, str(copy), tmp_path / "kept", state=state, period=period)
    job(spark, str(copy), tmp_path / "full", period=period)
    assert written(tmp_path / "kept") == written(tmp_path / "full")
    assert {path: path.stat().st_mtime_ns for path in state.rglob("*.parquet")} == before


def test_repeated_rows_count_once_and_merged_files_replace_their_parts(
    spark: SparkSession, lake: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "lake"
    shutil.copytree(lake, copy)
    (own,) = (copy / "deliveries" / "date=2026-03-02" / "domain=denver").glob("*.parquet")
    repeat(own, 100, 600, "again.parquet")
    (other,) = (copy / "deliveries" / "date=2026-03-03" / "domain=denver").glob("*.parquet")
    table = pq.read_table(other, partitioning=None)
    metadata = {**table.schema.metadata, REPLACES_KEY.encode(): other.name.encode()}
    pq.write_table(table.replace_schema_metadata(metadata), other.with_name("merged.parquet"))
    rates = sorted((copy / "topic_rates" / "date=2026-03-02").glob("*/*.parquet"))
    repeat(rates[0], 10, 100, "again.parquet")
    plain, found = (slo(spark, str(root), tmp_path / "out") for root in (lake, copy))
    assert [each["reason"] for each in found.pop("skipped")] == ["its rows are in a merged file"]
    assert plain.pop("skipped") == []
    assert found == plain


def test_tables_of_the_catalog_give_the_same(spark: SparkSession, lake: Path, tmp_path: Path) -> None:
    for table in ("broker_samples", "link_samples", "events"):
        frame = spark.read.parquet(str(lake / table)).drop("date")
        frame.createOrReplaceTempView(f"some_{table}")
    named = [f"{table}=some_{table}" for table in ("broker_samples", "link_samples", "events")]
    source = parse_source(None, named, availability.READ)
    found = availability.run(spark, source, tmp_path / "tables")
    assert found == availability.run(spark, str(lake), tmp_path / "lake")
    with pytest.raises(InputError, match="needs a lake"):
        availability.run(spark, source, tmp_path / "out", state=tmp_path / "state")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("job", [load, pytest.param(availability, marks=pytest.mark.soak)])
def test_a_stream_keeps_state_and_result_current(
    spark: SparkSession, lake: Path, tmp_path: Path, job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exactly once, whatever happens in between: the files are those of a batch run."""
    copy, state, out = tmp_path / "lake", tmp_path / "state", tmp_path / "out"
    shutil.copytree(lake, copy)
    later = list(copy.glob("*/date=2026-03-03"))
    for folder in later:
        folder.rename(folder.with_name("." + folder.name))
    # It dies after the state was published, before the result is written and the batch is noted.
    with monkeypatch.context() as patched:
        patched.setattr(job, "output_directory", crash)
        with pytest.raises(MangroveError, match="the stream failed: the disk is full"):
            job.follow(spark, str(copy), out, state)
    assert not out.exists()
    for folder in later:
        folder.with_name("." + folder.name).rename(folder)
    found = job.follow(spark, str(copy), out, state)
    assert found["skipped"] == []
    job.run(spark, str(copy), tmp_path / "batch")
    assert written(out) == written(tmp_path / "batch")
    # A checkpoint of other tables would let files pass unseen.
    (state / ".stream.json").write_text('["elsewhere"]')
    with pytest.raises(InputError, match="is of other tables"):
        job.follow(spark, str(copy), out, state)


def crash(*_: Any) -> Any:
    raise OSError("the disk is full")


def test_streams_keep_to_their_lake_and_periods_to_full_hours(
    spark: SparkSession, lake: Path, tmp_path: Path
) -> None:
    slo_stream.stream(spark, str(lake), tmp_path / "out", 0.99)
    shutil.copytree(lake, tmp_path / "other")
    with pytest.raises(InputError, match="goes on with lake"):
        slo_stream.stream(spark, str(tmp_path / "other"), tmp_path / "out", 0.99)
    with pytest.raises(InputError, match=r"goes on with target 0\.99"):
        slo_stream.stream(spark, str(lake), tmp_path / "out", 0.9)
    # A checkpoint that Spark cannot read.
    (tmp_path / "out" / "_checkpoint" / "offsets" / "0").write_text("v9\nnonsense")
    with pytest.raises(MangroveError, match="the stream failed") as caught:
        slo_stream.stream(spark, str(lake), tmp_path / "out", 0.99)
    assert "_checkpoint does not fit" in caught.value.hint
    with pytest.raises(InputError, match="by the hour"):
        slo(spark, str(lake), tmp_path / "slo", period=Period(since_s=MIDNIGHT + 60))
    assert parse_period("2026-03-03", "2026-03-03T01:00+00:00") == Period(MIDNIGHT, MIDNIGHT + 3600)
    for since, until in (("yesterday", None), ("2026-03-03", "2026-03-02"), ("2026-03-03T00:00:00.5", None)):
        with pytest.raises(InputError, match="--since"):
            parse_period(since, until)


def test_arrow_pieces_do_not_matter(tmp_path: Path) -> None:
    from mangrove.pipelines.output import write_parquet

    whole = pa.table({"x": list(range(100))})
    write_parquet(tmp_path / "a", whole)
    write_parquet(tmp_path / "b", pa.concat_tables([whole.slice(0, 7), whole.slice(7)]))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
