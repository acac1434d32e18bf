"""Files read by the workers, without Spark: what is left out, which day and domain rows are of."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.kit.rates import place, shard

from mangrove.pipelines.rates.lake_batches import LakeBatches
from mangrove.pipelines.reading.rows import FAILED_READ

T0 = int(datetime(2026, 3, 2, 9, tzinfo=UTC).timestamp())
DAY = (T0 // 86400) - 1


def read(batches: LakeBatches, *units: dict[str, object]) -> list[dict[str, object]]:
    """Rows of some units."""
    known = {"date": None, "domain": None, "part": 0, "parts": 1}
    table = pa.RecordBatch.from_pylist([known | unit for unit in units])
    return [row for batch in batches.batches(iter([table])) for row in batch.to_pylist()]


def lake_batches(lake: Path, **changes: object) -> LakeBatches:
    chosen = {"domains": None, "since_s": None, "until_s": None, "dated": True} | changes
    return LakeBatches(str(lake), **chosen)  # type: ignore[arg-type]


def test_rows_are_complete_and_of_their_directory(tmp_path: Path) -> None:
    table = shard([(T0 + s, "b", "x", s) for s in range(10)])
    table = table.set_column(2, "topic", pa.array(["x"] * 6 + [None] * 4))
    path = place(tmp_path, "holes", table)
    rows = read(lake_batches(tmp_path), {"path": str(path), "domain": "a", "date": "2026-03-01"})
    assert [row["msgs_in"] for row in rows] == list(range(6))
    assert {(row["domain"], row["broker"], row["topic"], row["day"]) for row in rows} == {
        ("a", "b", "x", DAY)
    }
    own_day = read(lake_batches(tmp_path), {"path": str(path), "domain": "a"})
    assert {row["day"] for row in own_day} == {DAY + 1}


def test_moments_and_domains_in_question(tmp_path: Path) -> None:
    path = place(tmp_path, "f", shard([(T0 + s, "b", "x", s) for s in range(10)]))
    unit: dict[str, object] = {"path": str(path), "domain": "a"}
    some = lake_batches(tmp_path, since_s=T0 + 3, until_s=T0 + 5, domains=frozenset({"a"}))
    assert [row["msgs_in"] for row in read(some, unit)] == [3, 4]
    assert not read(lake_batches(tmp_path, domains=frozenset({"c"})), unit)


def test_parts_of_a_file_are_all_of_it(tmp_path: Path) -> None:
    table = shard([(T0 + s, "b", "x", s) for s in range(100)])
    path = place(tmp_path, "f", table)
    pq.write_table(table, path, row_group_size=7)
    units: list[dict[str, object]] = [
        {"path": str(path), "domain": "a", "part": part, "parts": 4} for part in range(4)
    ]
    assert [row["msgs_in"] for row in read(lake_batches(tmp_path), *units)] == list(range(100))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = place(tmp_path, "f", shard([(T0, "b", "x", 1)]))
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(OSError, match=rf"{FAILED_READ}: {path}"):
        read(lake_batches(tmp_path), {"path": str(path), "domain": "a"})
