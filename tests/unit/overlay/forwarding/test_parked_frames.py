"""Frames that wait for a way."""

from __future__ import annotations

from tests.kit.frames import frame

from mangrove.overlay.forwarding.parked_frames import ParkedFrames


def test_parked_frames_expire_or_come_back_older() -> None:
    parked = ParkedFrames(limit_bytes=100)
    assert parked.park(frame(b"a"), now=0.0, until=1.0) == []
    assert parked.park(frame(b"b"), now=0.0, until=5.0) == []
    assert parked.timer() == 1.0
    assert [late.body for late in parked.expired(2.0)] == [b"a"]
    (back,) = parked.release(3.0)
    assert (back.body, back.age_us) == (b"b", 3_000_000)
    assert [lost.body for lost in parked.park(frame(b"c" * 200), 0.0, 1.0)] == [b"c" * 200]
