"""Frames: what is no frame is refused at once."""

from __future__ import annotations

import pytest
from tests.kit.engines import engine, federation

from mangrove.overlay.protocol.frames import (
    HEADER,
    MAGIC,
    Frame,
    FrameDecoder,
    FrameError,
    FrameType,
)


def test_garbage_is_refused_at_the_first_byte() -> None:
    with pytest.raises(FrameError, match="garbage"):
        FrameDecoder().feed(b"GET / HTTP/1.1\r\n")


def test_unknown_type_and_excessive_sizes_are_refused() -> None:
    with pytest.raises(FrameError, match="unknown frame type 99"):
        FrameDecoder().feed(HEADER.pack(MAGIC, 99, 1, *[0] * 12))
    with pytest.raises(FrameError, match="beyond the limits"):
        FrameDecoder().feed(HEADER.pack(MAGIC, FrameType.DATA, 1, 2**31, *[0] * 11))


def test_a_truncated_frame_is_noticed() -> None:
    decoder = FrameDecoder()
    assert decoder.feed(Frame(FrameType.DATA, b"body").encode()[:-1]) == []
    assert decoder.held_bytes == HEADER.size + 3


def test_malformed_control_bodies_are_refused() -> None:
    peer = engine(federation(("a", "b")), "a")
    for frame_type in set(FrameType) - {FrameType.DATA, FrameType.JOBS, FrameType.PIECE}:
        with pytest.raises(FrameError, match="malformed"):
            peer.receive("b", Frame(frame_type, b"\xc1not msgpack"), 0.0)
