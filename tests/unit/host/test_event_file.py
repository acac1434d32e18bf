"""The event log on disk: a full disk stops nobody, and a line that was cut off spoils no other."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from mangrove.agent.story import read_events
from mangrove.control.events.session_happenings import TopicMoved
from mangrove.host.event_file import EventFile
from mangrove.model.events.event_log import Event
from mangrove.overlay.events.happenings import LinkFailed


def event(number: int, peer: str = "b") -> Event:
    failed = LinkFailed(peer=peer, reason="silent")
    return Event(id=f"a-{number}", at=float(number), cause=None, happening=failed)


def told(directory: Path) -> list[str]:
    return [each.id for each in read_events(directory)]


def test_a_full_disk_stops_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "a.jsonl"
    path.symlink_to("/dev/full")
    file = EventFile(path)
    with caplog.at_level(logging.WARNING):
        for number in range(1, 4):
            file.write([event(number)])
        assert [each.getMessage() for each in caplog.records] == [
            f"events cannot be written to {path}: [Errno 28] No space left on device"
        ]
        path.unlink()
        file.write([event(4)])
        assert caplog.records[-1].getMessage() == f"events are written to {path} again; up to 3 were lost"
    assert told(tmp_path) == ["a-4"]


def test_a_line_that_was_cut_off_costs_itself_alone(tmp_path: Path) -> None:
    """By a crash, or by a disk that was full in the midst of it."""
    path = tmp_path / "a.jsonl"
    EventFile(path).write([event(1), event(2)])
    path.write_bytes(path.read_bytes()[:-20])
    again = EventFile(path)
    number = again.last_number() + 1
    for each in range(number, number + 3):
        again.write([event(each)])
    assert number == 2, "nobody has read of the second"
    assert told(tmp_path) == ["a-1", "a-2", "a-3", "a-4"]


def test_what_no_document_can_hold_costs_itself_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = EventFile(tmp_path / "a.jsonl")
    counts = dict.fromkeys(("moved", "failed", "vanished", "silent"), 0)
    too_large = TopicMoved(session="a-1", topic="t", to="e2", held_ms=0.0, repeated=10**5000, **counts)
    with caplog.at_level(logging.WARNING):
        file.write([event(1), Event(id="a-2", at=2.0, cause=None, happening=too_large), event(3)])
        file.write([event(4, peer="\ud800")])
        file.write([event(5)])
    assert told(tmp_path) == ["a-1", "a-3", "a-5"]
    assert len(caplog.records) == 2, "it begins and it ends"
    assert caplog.records[-1].getMessage().endswith("again; up to 2 were lost")
