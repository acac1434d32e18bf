"""The writer of the lake: no row is lost and none counts twice."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mangrove.lake.files import list_table
from mangrove.lake.writer import LakeWriter, write_whole
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


class SlowRows(list[dict[str, object]]):
    """Rows that are still being handed over when a flush begins."""

    def __init__(self, rows: list[dict[str, object]]) -> None:
        super().__init__(rows)
        self.handing_over, self.go_on = threading.Event(), threading.Event()

    def __iter__(self) -> Iterator[dict[str, object]]:
        self.handing_over.set()
        assert self.go_on.wait(10)
        return super().__iter__()


def test_rows_that_are_added_while_a_flush_runs_are_written_by_it_or_by_the_next(tmp_path: Path) -> None:
    writer = LakeWriter(tmp_path)
    writer.add(EVENTS, [event(0)])
    slow = SlowRows([event(1), event(2)])
    adding = threading.Thread(target=writer.add, args=(EVENTS, slow))
    adding.start()
    assert slow.handing_over.wait(10)
    writer.flush()
    slow.go_on.set()
    adding.join()
    writer.close()
    assert details(tmp_path) == [0, 1, 2]


def test_closing_waits_for_the_flush_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writing, go_on = threading.Event(), threading.Event()

    def slow_at_first(table: pa.Table, path: Path) -> None:
        if not writing.is_set():
            writing.set()
            assert go_on.wait(10)
        write_whole(table, path)

    monkeypatch.setattr("mangrove.lake.writer.write_whole", slow_at_first)
    writer = LakeWriter(tmp_path)
    writer.add(EVENTS, [event(0)])
    flushing = threading.Thread(target=writer.flush)
    flushing.start()
    assert writing.wait(10)
    writer.add(EVENTS, [event(1)])
    found: list[list[int]] = []

    def close() -> None:
        writer.close()
        found.append(details(tmp_path))

    closing = threading.Thread(target=close)
    closing.start()
    closing.join(0.3)  # long enough to end, if it did not wait
    go_on.set()
    closing.join()
    flushing.join()
    assert found == [[0, 1]], "when close returns, everything is on the disk"


def test_what_was_written_before_the_disk_refused_is_not_written_again(tmp_path: Path) -> None:
    writer = LakeWriter(tmp_path)
    writer.add(EVENTS, [event(0), event(86400)])
    second = tmp_path / "events" / "date=2026-03-03"
    second.parent.mkdir()
    second.write_text("a file where the day's directory should be")
    with pytest.raises(OSError, match="2026-03-03"):
        writer.flush()
    second.unlink()
    writer.close()
    assert details(tmp_path) == [0, 86400]


def test_rows_beyond_the_bound_are_refused_and_counted(tmp_path: Path) -> None:
    writer = LakeWriter(tmp_path, max_kept_rows=3)
    for number in range(5):
        writer.add(EVENTS, [event(number)])
    assert writer.take_refused() == 2
    assert writer.take_refused() == 0
    writer.flush()
    writer.add(EVENTS, [event(number) for number in range(5, 9)])
    writer.close()
    assert details(tmp_path) == [0, 1, 2, 5, 6, 7]
    assert writer.take_refused() == 1


def test_merging_goes_on_in_groups_and_spares_files_of_another_schema(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mangrove.lake.writer.MERGED_GROUP_ROWS", 4)
    writer = LakeWriter(tmp_path, parts_before_merge=5)
    for number in range(5):
        writer.add(EVENTS, [event(2 * number), event(2 * number + 1)])
        writer.flush()
    (merged,) = tmp_path.rglob("merged-*.parquet")
    assert pq.read_metadata(merged).num_row_groups == 3
    assert details(tmp_path) == list(range(10))
    foreign = merged.with_name("part-foreign.parquet")
    pq.write_table(pa.table({"other": [1]}), foreign)
    again = LakeWriter(tmp_path)
    again.add(EVENTS, [event(10)])
    again.flush()
    again.add(EVENTS, [event(11)])
    again.close()
    assert details(tmp_path) == list(range(12))
    assert foreign.exists()


def flip(path: Path) -> None:
    """Damage a page: the footer stays as it was."""
    data = bytearray(path.read_bytes())
    found = data.index(b"broker_down")
    data[found : found + 6] = b"BROKER"
    path.write_bytes(data)


@pytest.fixture
def uncompressed(monkeypatch: pytest.MonkeyPatch) -> None:
    def write(table: pa.Table, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path, compression="none", write_page_checksum=True, write_statistics=False)

    monkeypatch.setattr("mangrove.lake.writer.write_whole", write)


@pytest.mark.usefixtures("uncompressed")
@pytest.mark.parametrize("bad", [0, 2, 4])
def test_a_damaged_file_is_not_merged_and_does_not_hold_up_the_others(tmp_path: Path, bad: int) -> None:
    writer = LakeWriter(tmp_path, parts_before_merge=5)
    for number in range(4):
        writer.add(EVENTS, [event(number)])
        writer.flush()
    parts = sorted(tmp_path.rglob("part-*.parquet"))
    if bad < 4:
        flip(parts[bad])
    writer.add(EVENTS, [event(4)])
    (last,) = writer._write_kept()
    if bad == 4:
        flip(last)
    before = sorted(tmp_path.rglob("part-*.parquet"))[bad].read_bytes()
    writer.flush()
    (left,) = tmp_path.rglob("part-*.parquet")
    assert left.read_bytes() == before
    (merged,) = tmp_path.rglob("merged-*.parquet")
    found = pq.read_table(merged, partitioning=None, page_checksum_verification=True)
    assert found.column("detail").to_pylist() == [str(number) for number in range(5) if number != bad]
    assert set(found.column("kind").to_pylist()) == {"broker_down"}
    replaced = pq.read_metadata(merged).metadata[REPLACES_KEY.encode()].decode().split("\n")
    assert len(replaced) == 4
    assert left.name not in replaced
    assert len(list_table(str(tmp_path), EVENTS).files) == 2, "readers meet the damage, and report it"


@pytest.mark.usefixtures("uncompressed")
def test_of_damaged_files_alone_nothing_is_made(tmp_path: Path) -> None:
    writer = LakeWriter(tmp_path)
    for number in range(2):
        writer.add(EVENTS, [event(number)])
        flip(*writer.flush())
    before = sorted(tmp_path.rglob("*.parquet"))
    writer.close()
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == before


def test_what_cannot_be_merged_is_told_as_the_disk_s_refusals_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(parts: list[Path], target: Path) -> list[Path]:
        raise pa.ArrowInvalid("not one schema")

    monkeypatch.setattr("mangrove.lake.writer._concatenate", refuse)
    writer = LakeWriter(tmp_path, parts_before_merge=1)
    writer.add(EVENTS, [event(0)])
    with pytest.raises(OSError, match="cannot be merged: not one schema"):
        writer.flush()
    assert details(tmp_path) == [0]
    assert writer.flush() == []
