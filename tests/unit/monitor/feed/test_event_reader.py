"""Events are read once, in order of time, across files that are renamed and lines that are half written."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from mangrove.monitor.feed import event_reader
from mangrove.monitor.feed.event_reader import EventReader


def line(name: str, number: int, at: float, cause: str | None = None) -> bytes:
    details = {"peer": "b", "reason": "silence", "silent_ms": 1.0, "dead_interval_ms": 1.0}
    return (
        msgspec.json.encode(
            {"id": f"{name}-{number}", "at": at, "kind": "LinkFailed", "cause": cause, "details": details}
        )
        + b"\n"
    )


def ids(reader: EventReader) -> list[str]:
    return [event.id for event in reader.events]


def test_events_of_all_files_come_in_order_of_time(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(line("a", 1, 3.0) + line("a", 2, 5.0))
    (tmp_path / "b.jsonl").write_bytes(line("b", 1, 4.0))
    reader = EventReader(tmp_path)
    assert reader.look()
    assert ids(reader) == ["a-1", "b-1", "a-2"]
    assert [event.id for event in reader.between(3.5, 4.5, 10)] == ["b-1"]
    assert [event.id for event in reader.between(None, None, 1)] == ["a-2"]
    assert not reader.look(), "nothing is read twice"


def test_a_half_written_line_waits_and_a_broken_one_is_left_out(tmp_path: Path) -> None:
    whole = line("a", 1, 1.0)
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"no event\n" + whole[:20])
    reader = EventReader(tmp_path)
    assert not reader.look()
    with path.open("ab") as file:
        file.write(whole[20:])
    assert reader.look()
    assert ids(reader) == ["a-1"]


def test_a_renamed_file_is_not_read_again(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(line("a", 1, 1.0))
    reader = EventReader(tmp_path)
    reader.look()
    path.rename(tmp_path / "a.old")
    path.write_bytes(line("a", 2, 2.0))
    assert reader.look()
    assert ids(reader) == ["a-1", "a-2"]


def test_the_oldest_are_let_go_of_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_reader, "MAX_EVENTS", 3)
    (tmp_path / "a.jsonl").write_bytes(b"".join(line("a", n, float(n)) for n in range(1, 6)))
    reader = EventReader(tmp_path)
    assert reader.look()
    assert ids(reader) == ["a-3", "a-4", "a-5"]
    assert reader.forgotten == 2
