"""Event logs are read once, across files that are renamed, lines that are half written, and long pasts."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from mangrove.host.event_stream import event_tail
from mangrove.host.event_stream.event_tail import EventTail
from mangrove.model.stream.events import EventsPage, EventsQuestion


def line(number: int) -> bytes:
    return msgspec.json.encode({"id": f"a-{number}", "at": float(number), "kind": "LinkFailed"}) + b"\n"


def numbers(page: EventsPage) -> list[int]:
    return [int(msgspec.json.decode(each)["id"].rpartition("-")[2]) for each in page.lines]


def test_who_has_some_gets_what_comes_after(tmp_path: Path) -> None:
    path, other = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    path.write_bytes(line(1) + line(2))
    tail = EventTail([path, other])
    first = tail.page(EventsQuestion())
    assert (numbers(first), first.first, first.count) == ([1, 2], 0, 2)
    other.write_bytes(line(3))
    assert tail.look().count == 3
    assert numbers(tail.page(EventsQuestion(life=first.life, after=2))) == [3]
    assert numbers(tail.page(EventsQuestion(life=first.life, after=3))) == []
    assert numbers(tail.page(EventsQuestion(life=first.life + 1, after=3))) == [1, 2, 3], "of another life"
    for odd in (-1, -(10**9)):
        assert numbers(tail.page(EventsQuestion(life=first.life, after=odd))) == [1, 2, 3]
    assert numbers(tail.page(EventsQuestion(life=first.life, after=10**9))) == []


def test_a_half_written_line_waits_and_what_is_no_event_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"no event\n" + line(1)[:20])
    tail = EventTail([path])
    assert tail.look().count == 0
    with path.open("ab") as file:
        file.write(line(1)[20:])
    assert numbers(tail.page(EventsQuestion())) == [1]


def test_a_renamed_file_is_not_read_again(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(line(1))
    tail = EventTail([path])
    tail.look()
    path.rename(tmp_path / "a.old")
    path.write_bytes(line(2))
    assert numbers(tail.page(EventsQuestion())) == [1, 2]


def test_rotations_that_give_an_inode_to_a_new_file_lose_nothing(tmp_path: Path) -> None:
    """Of the file that is gone, its inode often goes to the one that is begun: it is read from its start."""
    path = tmp_path / "a.jsonl"
    tail = EventTail([path])
    for number in range(0, 30, 3):
        if path.exists():
            path.rename(tmp_path / "a.old")
        path.write_bytes(line(number) + line(number + 1))
        tail.look()
        with path.open("ab") as file:
            file.write(line(number + 2))
    assert numbers(tail.page(EventsQuestion())) == list(range(30))


@pytest.mark.parametrize("length", [1, 2, 3, 4, 50])
def test_a_file_that_was_emptied_is_read_from_its_start(tmp_path: Path, length: int) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"".join(map(line, range(100, 103))))
    tail = EventTail([path])
    tail.look()
    inode = path.stat().st_ino
    path.write_bytes(b"".join(map(line, range(200, 200 + length))))
    assert path.stat().st_ino == inode
    assert numbers(tail.page(EventsQuestion())) == [100, 101, 102, *range(200, 200 + length)]


def test_memory_and_answers_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_tail, "KEPT", 5)
    monkeypatch.setattr(event_tail, "PAGE_LINES", 2)
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"".join(map(line, range(10))))
    tail = EventTail([path])
    page = tail.page(EventsQuestion())
    assert (numbers(page), page.first, page.count) == ([5, 6], 5, 10)
    assert numbers(tail.page(EventsQuestion(life=page.life, after=9))) == [9]


def test_of_a_long_past_the_end_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_tail, "BACKLOG_BYTES", len(line(7)) * 2 + 5)
    monkeypatch.setattr(event_tail, "READ_BYTES", len(line(7)) + 1)
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"".join(map(line, range(10))))
    tail = EventTail([path])
    assert numbers(tail.page(EventsQuestion())) == [8, 9]
    with path.open("ab") as file:
        file.write(b"x" * 3 * len(line(7)) + b"\n" + line(5))
    assert numbers(tail.page(EventsQuestion())) == [8, 9, 5], "what is too long is left out"
