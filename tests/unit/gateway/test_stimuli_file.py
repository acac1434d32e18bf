"""Recordings on disk: a bounded ring, each part replayable by itself, and nothing in it is trusted."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import msgspec
import pytest
from tests.kit.engines import federation

from mangrove.errors import InputError
from mangrove.gateway.stimuli_file import (
    MAGIC,
    SegmentHead,
    StimuliFile,
    read_recording,
    recordings,
)
from mangrove.overlay.stimuli.recorded_engine import RecordedEngine
from mangrove.overlay.stimuli.replay import replay

SHAPE = federation(("a", "b"), ("b", "c"), ("a", "c"))


def record(path: Path, seconds: float, max_file_bytes: int = 1 << 20) -> RecordedEngine:
    """An engine whose neighbours never answer: links are tested, given up and tried again."""
    head = SegmentHead(federation=SHAPE, domain="a", epoch=7, events_before=3)
    file = StimuliFile(path, head, max_file_bytes)
    engine = RecordedEngine(SHAPE, "a", 7, file.record, events_before=3)
    file.follow(engine)
    now = 0.0
    while now < seconds:
        for peer in "bc":
            if engine.status(now).links[peer].state != "testing":
                engine.peer_up(peer, now)
        engine.change_local_interest(f"x.{int(now * 10)}", "", True)
        engine.flush(now)
        now += 0.05
        engine.handle_timer(now)
    file.write()
    return engine


def test_a_recording_replays_into_an_engine_of_its_own(tmp_path: Path) -> None:
    engine = record(tmp_path / "a.ring", 5.0)
    (recording,) = recordings(tmp_path / "a.ring")
    found = replay(recording.engine, recording.stimuli)
    assert found.identical
    assert found.stimuli["TimerServed"] in (100, 101)
    assert recording.engine.status(5.0) == engine.status(5.0)


def test_the_ring_is_bounded_and_every_part_stands_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.ring"
    engine = record(path, 60.0, max_file_bytes=20_000)
    older, newer = recordings(path)
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 150_000, "two, and a state in each"
    assert older.head.state
    assert newer.head.state
    assert replay(older.engine, older.stimuli).identical
    assert replay(newer.engine, newer.stimuli).identical
    assert newer.engine.status(60.0) == engine.status(60.0)


def test_a_cut_off_end_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.ring"
    record(path, 2.0)
    whole = replay(*_open(path)).count
    path.write_bytes(path.read_bytes()[:-3])
    assert replay(*_open(path)).count == whole - 1


def _open(path: Path):  # type: ignore[no-untyped-def]
    recording = read_recording(path)
    return recording.engine, recording.stimuli


class _Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (os.system, ("touch /tmp/mangrove-was-here",))


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "not a recording"),
        (b"GET / HTTP/1.1", "not a recording"),
        (MAGIC, "no usable beginning"),
        (MAGIC + b"\x00\x00\x00\x04junk", "no usable beginning"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: bytes, complaint: str) -> None:
    path = tmp_path / "x.ring"
    path.write_bytes(content)
    with pytest.raises(InputError, match=complaint):
        read_recording(path)


def test_a_directory_is_no_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="is a directory") as caught:
        recordings(Path())
    assert "DOMAIN.ring" in caught.value.hint


def test_a_state_may_hold_nothing_but_our_values(tmp_path: Path) -> None:
    for state in (pickle.dumps(_Evil()), pickle.dumps({"a": 1}), b"\x80\x05garbage"):
        head = SegmentHead(federation=SHAPE, domain="a", epoch=7, events_before=0, state=state)
        record = msgspec.msgpack.encode(head)
        path = tmp_path / "evil.ring"
        path.write_bytes(MAGIC + len(record).to_bytes(4, "big") + record)
        with pytest.raises(InputError, match="no usable beginning"):
            read_recording(path)
