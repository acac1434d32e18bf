"""The writer of the lake: no row is lost and none counts twice."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from mangrove.lake.files import list_table
from mangrove.lake.writer import LakeWriter
from mangrove.model.telemetry import EVENTS, REPLACES_KEY

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def event(number: int, ts: datetime = NOON) -> dict[str, object]:
    when = ts + timedelta(seconds=number)
    return {"ts": when, "domain": "a", "subject": "b", "kind": "broker_down", "detail": str(number)}


def details(lake: Path) -> list[int]:
    listing = list_table(str(lake), EVENTS)
    read = [
        pq.read_table(file.path, partitioning=None).column("detail").to_pylist() for file in listing.files
    ]
    return sorted(int(text) for texts in read for text in texts)


def test_small_files_are_merged_and_no_row_is_lost(tmp_path: Path) -> None:
    writer = LakeWriter(tmp_path, parts_before_merge=3)
    for number in range(7):
        writer.add(EVENTS, [event(number)])
        writer.flush()
    assert details(tmp_path) == list(range(7))
    assert len(list(tmp_path.rglob("*.parquet"))) == 3
    writer.close()
    assert details(tmp_path) == list(range(7))


def test_rows_go_to_the_date_of_their_time(tmp_path: Path) -> None:
    writer = LakeWriter(tmp_path)
    writer.add(EVENTS, [event(0), event(13 * 3600)])
    writer.flush()
    assert sorted(p.name for p in (tmp_path / "events").iterdir()) == ["date=2026-03-02", "date=2026-03-03"]


def test_a_writer_that_died_between_merging_and_deleting_counts_no_row_twice(tmp_path: Path) -> None:
    writer = LakeWriter(tmp_path)
    for number in range(3):
        writer.add(EVENTS, [event(number)])
        writer.flush()
    parts = {path: path.read_bytes() for path in tmp_path.rglob("part-*.parquet")}
    writer.close()
    for path, data in parts.items():
        path.write_bytes(data)
    assert details(tmp_path) == [0, 1, 2]
    skipped = list_table(str(tmp_path), EVENTS).skipped
    assert [each.reason for each in skipped] == ["its rows are in a merged file"] * 3
    LakeWriter(tmp_path)
    assert not list(tmp_path.rglob("part-*.parquet"))
    (merged,) = tmp_path.rglob("merged-*.parquet")
    assert len(pq.read_metadata(merged).metadata[REPLACES_KEY.encode()].split(b"\n")) == 3


def test_half_written_files_are_skipped_and_reported(tmp_path: Path) -> None:
    writer = LakeWriter(tmp_path)
    writer.add(EVENTS, [event(0)])
    (path,) = writer.flush()
    (path.parent / ".part-9.parquet.tmp").write_bytes(b"PAR1 half")
    broken = path.with_name("part-broken.parquet")
    broken.write_bytes(path.read_bytes()[:-20])
    listing = list_table(str(tmp_path), EVENTS)
    assert [file.path for file in listing.files] == [str(path)]
    assert [each.path for each in listing.skipped] == [str(broken)]
    LakeWriter(tmp_path)
    assert not list(tmp_path.rglob(".*.tmp"))


def test_a_disk_that_refuses_keeps_the_rows_for_later(tmp_path: Path) -> None:
    (tmp_path / "events").write_text("a file where the table's directory should be")
    writer = LakeWriter(tmp_path)
    writer.add(EVENTS, [event(0)])
    with pytest.raises(OSError, match="events"):
        writer.flush()
    (tmp_path / "events").unlink()
    writer.add(EVENTS, [event(1)])
    writer.flush()
    assert details(tmp_path) == [0, 1]
