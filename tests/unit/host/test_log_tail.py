"""What was added to a log since the last look, across rotation and floods."""

from __future__ import annotations

from pathlib import Path

from mangrove.host.log_tail import MAX_LOOK_BYTES, LogTail


def test_only_whole_lines_that_were_added_are_told_and_none_twice(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_bytes(b"before\n")
    tail = LogTail(log)
    assert tail.lines() == []
    with log.open("ab") as file:
        file.write(b"one\ntw")
        file.flush()
        assert tail.lines() == [b"one"]
        file.write(b"o\nthree\n")
    assert tail.lines() == [b"two", b"three"]
    assert tail.lines() == []


def test_a_log_that_comes_later_or_begins_anew_is_read_from_its_beginning(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    tail = LogTail(log)
    assert tail.lines() == []
    log.write_bytes(b"first\n")
    assert tail.lines() == [b"first"]
    log.rename(tmp_path / "x.log.1")
    log.write_bytes(b"second\n")
    assert tail.lines() == [b"second"]


def test_a_flood_is_skipped_and_counted(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_bytes(b"")
    tail = LogTail(log)
    line = b"x" * 99 + b"\n"
    log.write_bytes(line * 100_000)
    assert len(tail.lines()) <= MAX_LOOK_BYTES // 100 + 1
    assert tail.skipped_bytes > 9_000_000
    with log.open("ab") as file:
        file.write(b"after\n")
    assert tail.lines() == [b"after"]
