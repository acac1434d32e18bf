"""Rows by Spark's own scan: pruned, checked, cast; from a lake and from the catalog."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from mangrove.errors import InputError
from mangrove.model.telemetry import LINK_SAMPLES, TOPIC_RATES
from mangrove.pipelines.reading.rows import open_rows, unharmed
from mangrove.pipelines.reading.source import Source, lake, parse_source

pytestmark = pytest.mark.timeout(300)

T0 = int(datetime(2026, 3, 2, tzinfo=UTC).timestamp())
COUNTS = ("msgs_in", "bytes_in", "msgs_out", "bytes_out", "subscribers", "filters")


def rates(seconds: range, **changed: pa.Array) -> pa.Table:
    columns: dict[str, Any] = {
        "ts": pa.array([(T0 + s) * 1_000_000 for s in seconds], pa.timestamp("us", tz="UTC")),
        "broker": pa.array(["b"] * len(seconds)),
        "topic": pa.array(["x"] * len(seconds)),
    }
    columns |= {name: pa.array(list(seconds), pa.int64()) for name in COUNTS}
    return pa.table(columns | changed)


def place(root: Path, name: str, table: pa.Table, *, day: int = 2, domain: str = "a") -> Path:
    path = root / "topic_rates" / f"date=2026-03-0{day}" / f"domain={domain}" / f"{name}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)
    return path


def plan(frame: DataFrame) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        frame.explain("formatted")
    return shown.getvalue()


def test_directories_columns_and_groups_of_rows_are_pruned(spark: SparkSession, tmp_path: Path) -> None:
    root = tmp_path / "a lake%20x#1"
    for day in (2, 3, 4):
        for domain in ("a", "12"):
            place(
                root, "one", rates(range((day - 2) * 86400, (day - 2) * 86400 + 10)), day=day, domain=domain
            )
    (root / "topic_rates" / "date=2026-03-03" / "domain=a" / ".hidden.parquet").write_bytes(b"half")
    found = open_rows(
        spark,
        lake(str(root)),
        TOPIC_RATES,
        columns=("ts", "domain", "msgs_in"),
        domains=["12"],
        since_s=T0 + 86405,
        until_s=T0 + 86408,
    )
    assert [file.path.rpartition("topic_rates/")[2] for file in found.files] == [
        "date=2026-03-03/domain=12/one.parquet"
    ]
    text = plan(found.frame)
    assert "msgs_in:bigint" in text.partition("ReadSchema")[2].splitlines()[0]
    assert "topic" not in text.partition("ReadSchema")[2].splitlines()[0]
    assert "2026-03-03" in text.partition("PartitionFilters")[2].splitlines()[0]
    assert "GreaterThanOrEqual(ts" in text.partition("PushedFilters")[2].splitlines()[0]
    assert [row["msgs_in"] for row in found.frame.orderBy("ts").collect()] == [86405, 86406, 86407]
    assert {row["domain"] for row in found.frame.collect()} == {"12"}
    assert found.report() == []


def test_types_of_other_writers_are_cast_and_directories_may_differ(
    spark: SparkSession, tmp_path: Path
) -> None:
    ten = range(10)
    odd = {
        "nanoseconds": {"ts": pa.array([(T0 + s) * 10**9 + 999 for s in ten], pa.timestamp("ns", tz="UTC"))},
        "milliseconds": {"ts": pa.array([(T0 + s) * 1000 for s in ten], pa.timestamp("ms"))},
        "narrow": {"msgs_in": pa.array(list(ten), pa.int16()), "filters": pa.array(list(ten), pa.uint32())},
        "dictionary": {"topic": pa.array(["x"] * 10).dictionary_encode()},
        "plain": {},
    }
    for name, changed in odd.items():
        place(tmp_path, name, rates(ten, **changed))
    flat = tmp_path / "topic_rates" / "flat.parquet"
    pq.write_table(rates(ten).append_column("domain", pa.array(["f"] * 10)), flat)
    found = open_rows(spark, lake(str(tmp_path)), TOPIC_RATES)
    assert found.frame.columns == [column.name for column in TOPIC_RATES.columns]
    rows = found.frame.toArrow()
    assert rows.schema.field("ts").type == pa.timestamp("us", tz="UTC")
    assert rows.num_rows == 60
    assert set(rows.column("ts").cast(pa.int64()).to_pylist()) == {(T0 + s) * 1_000_000 for s in ten}
    assert sorted(set(rows.column("domain").to_pylist())) == ["a", "f"]
    assert sum(rows.column("msgs_in").to_pylist()) == 6 * 45
    assert found.report() == []


def test_what_is_of_no_use_is_named_and_the_rest_is_read(spark: SparkSession, tmp_path: Path) -> None:
    good = place(tmp_path, "good", rates(range(10)))
    copy = good.with_name("later.parquet")
    copy.write_bytes(good.read_bytes())
    cut = good.with_name("cut.parquet")
    cut.write_bytes(good.read_bytes()[:400])
    lacking = place(tmp_path, "lacking", rates(range(5)).drop_columns(["filters"]))
    words = place(tmp_path, "words", rates(range(5), filters=pa.array(["1"] * 5)))
    holes = place(tmp_path, "holes", rates(range(20, 24), topic=pa.array(["x", None, "x", None])))
    rng = np.random.default_rng(1)
    bad = place(tmp_path, "bad", rates(range(5000), msgs_in=pa.array(rng.integers(10**6, size=5000))))
    data = bytearray(bad.read_bytes())
    data[40:4000] = bytes(3960)
    bad.write_bytes(data)
    nowhen = tmp_path / "topic_rates" / "date=unknown" / "domain=a" / "late.parquet"
    nowhen.parent.mkdir(parents=True)
    place(tmp_path, "late", rates(range(30, 37))).rename(nowhen)
    found = open_rows(spark, lake(str(tmp_path)), TOPIC_RATES)
    assert unharmed(lambda: found.frame.toArrow().num_rows, found) == 12
    told = {Path(each.path): (each.rows, each.reason) for each in found.report()}
    assert told[copy] == (10, f"a copy of {good}")
    assert told[cut][0] is None
    assert told[cut][1].startswith("not a readable Parquet file")
    assert told[lacking] == (5, "missing columns: filters")
    assert told[words] == (5, "column filters is string, not 64-bit integer")
    assert told[holes] == (2, "rows without a value where one is needed")
    assert told[bad][0] == 5000
    assert told[bad][1].startswith("damaged (")
    assert told[nowhen] == (7, "date=unknown is no day as directories are named: date=YYYY-MM-DD")
    assert len(told) == 7


def test_a_file_that_is_merged_away_meanwhile_costs_no_row(spark: SparkSession, tmp_path: Path) -> None:
    first, second = (place(tmp_path, f"part-{n}", rates(range(n * 10, n * 10 + 10))) for n in (0, 1))
    found = open_rows(spark, lake(str(tmp_path)), TOPIC_RATES)
    frame = found.frame
    both = pa.concat_tables([pq.read_table(path, partitioning=None) for path in (first, second)])
    place(
        tmp_path,
        "merged-0",
        both.replace_schema_metadata({"mangrove.replaces": "part-0.parquet\npart-1.parquet"}),
    )
    # Both are there for a moment: neither the frame of before nor a new one counts rows twice.
    assert frame.count() == 20
    again = open_rows(spark, lake(str(tmp_path)), TOPIC_RATES)
    assert again.frame.count() == 20
    assert [each.reason for each in again.report()] == ["its rows are in a merged file"] * 2
    first.unlink()
    second.unlink()
    assert unharmed(lambda: found.frame.toArrow().num_rows, found) == 20
    assert [Path(file.path).name for file in found.files] == ["merged-0.parquet"]


@pytest.fixture
def database(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    spark.sql(f"CREATE DATABASE reading_test LOCATION '{tmp_path / 'warehouse'}'")
    yield "reading_test"
    spark.sql("DROP DATABASE reading_test CASCADE")


def test_tables_of_the_catalog_serve_as_well(spark: SparkSession, tmp_path: Path, database: str) -> None:
    place(tmp_path, "one", rates(range(10)))
    place(tmp_path, "one", rates(range(86400, 86410)), day=3, domain="b")
    frame = open_rows(spark, lake(str(tmp_path)), TOPIC_RATES).frame
    name = f"{database}.rates"
    narrow = frame.withColumn("filters", frame["filters"].cast("int"))
    narrow.write.partitionBy("domain").saveAsTable(name)
    source = parse_source(None, [name], [TOPIC_RATES])
    found = open_rows(spark, source, TOPIC_RATES, domains=["b"], since_s=T0 + 86402)
    assert found.frame.columns == [column.name for column in TOPIC_RATES.columns]
    assert dict(found.frame.dtypes)["filters"] == "bigint"
    assert sorted(row["msgs_in"] for row in found.frame.collect()) == list(range(86402, 86410))
    assert "domain" in plan(found.frame).partition("PartitionFilters")[2].splitlines()[0]
    assert found.report() == []
    frame.drop("topic").write.saveAsTable(f"{database}.lacking")
    frame.withColumn("msgs_in", frame["msgs_in"].cast("string")).write.saveAsTable(f"{database}.words")
    for table, reason in (
        ("lacking", "missing columns: topic"),
        ("words", "column msgs_in is string, not 64-bit integer"),
    ):
        with pytest.raises(InputError, match=reason):
            open_rows(spark, Source(None, {"topic_rates": f"{database}.{table}"}), TOPIC_RATES)
    with pytest.raises(InputError, match=r"catalog has no table reading_test\.nothing"):
        open_rows(spark, Source(None, {"topic_rates": f"{database}.nothing"}), TOPIC_RATES)
    with pytest.raises(InputError, match="no table is given for link_samples"):
        open_rows(spark, source, LINK_SAMPLES)


def test_sources_are_parsed() -> None:
    wanted = [TOPIC_RATES, LINK_SAMPLES]
    both = parse_source("s3a://bucket/lake/", ["cat.db.t", "link_samples=l"], wanted)
    assert (both.lake, both.tables) == ("s3a://bucket/lake", {"topic_rates": "cat.db.t", "link_samples": "l"})
    assert both.place(LINK_SAMPLES) == "l"
    for tables, reason in (
        ([], "no input"),
        (["events=x"], "reads no events"),
        (["a", "topic_rates=b"], "second table for topic_rates"),
        (["topic_rates="], "names no table"),
    ):
        with pytest.raises(InputError, match=reason):
            parse_source(None, tables, wanted)
