"""Frames: what is no frame is refused at once."""

from __future__ import annotations

import pytest
from tests.kit.engines import engine, federation

from mangrove.overlay.protocol.frames import (
    HEADER,
    MAGIC,
    MAX_TAGS,
    TAG_BYTES,
    Frame,
    FrameDecoder,
    FrameError,
    FrameType,
    Predecessor,
    Tag,
)


def test_garbage_is_refused_at_the_first_byte() -> None:
    with pytest.raises(FrameError, match="garbage"):
        FrameDecoder().feed(b"GET / HTTP/1.1\r\n")


def test_unknown_type_and_excessive_sizes_are_refused() -> None:
    with pytest.raises(FrameError, match="unknown frame type 99"):
        FrameDecoder().feed(HEADER.pack(MAGIC, 99, 1, *[0] * 13))
    with pytest.raises(FrameError, match="beyond the limits"):
        FrameDecoder().feed(HEADER.pack(MAGIC, FrameType.DATA, 1, 2**31, *[0] * 12))


def test_a_truncated_frame_is_noticed() -> None:
    decoder = FrameDecoder()
    assert decoder.feed(Frame(FrameType.DATA, b"body").encode()[:-1]) == []
    assert decoder.held_bytes == HEADER.size + 3


def test_malformed_control_bodies_are_refused() -> None:
    peer = engine(federation(("a", "b")), "a")
    opaque = {FrameType.DATA, FrameType.JOBS, FrameType.PIECE, FrameType.MANAGEMENT}
    for frame_type in set(FrameType) - opaque:
        with pytest.raises(FrameError, match="malformed"):
            peer.receive("b", Frame(frame_type, b"\xc1not msgpack"), 0.0)


def test_predecessors_and_the_way_travel_with_a_frame() -> None:
    before = (Predecessor(7, 1 << 40, 0b1010), Predecessor(8, 3, 1 << 300))
    sent = Frame(FrameType.DATA, b"body", destinations=3, way=9, predecessors=before, hop_limit=5)
    assert FrameDecoder().feed(sent.encode() * 2) == [sent, sent]
    first, second = sent.onward(1, 4, gateway=2), sent.onward(1, 4, gateway=3)
    assert (first.predecessors, first.label, first.hop_limit, first.destinations) == (before, 4, 4, 1)
    assert len({sent.way, first.way, second.way, first.onward(1, 4, gateway=3).way}) == 4


@pytest.mark.parametrize("damage", [b"\0" * 13, b"\0" * 13 + b"\1", b"\0" * 12 + b"\xff\xff\1"])
def test_predecessors_that_are_cut_off_are_refused(damage: bytes) -> None:
    fields = [MAGIC, FrameType.DATA, 1, 0, 0, 0, 0, 0, 0, len(damage), 0, 0, 0, 0, 0, 0]
    with pytest.raises(FrameError, match="cut off"):
        FrameDecoder().feed(HEADER.pack(*fields) + damage)
    fields[9] = 5000
    with pytest.raises(FrameError, match="beyond the limits"):
        FrameDecoder().feed(HEADER.pack(*fields) + damage)


def test_tags_travel_with_a_frame_to_those_whose_they_are() -> None:
    tags = (Tag(0, b"0" * TAG_BYTES), Tag(300, b"3" * TAG_BYTES))
    sent = Frame(FrameType.DATA, b"body", destinations=1 | 1 << 300, tags=tags, hop_limit=5)
    assert FrameDecoder().feed(sent.encode() * 2) == [sent, sent]
    assert sent.towards(1).tags == tags[:1]
    assert sent.onward(1 << 300, 0, gateway=1).tags == tags[1:]
    assert sent.towards(sent.destinations, label=4).tags == tags


def test_more_tags_than_there_can_be_domains_are_refused() -> None:
    fields = [MAGIC, FrameType.DATA, 1, 0, 0, 0, 0, 0, 0, 0, MAX_TAGS + 1, 0, 0, 0, 0, 0]
    with pytest.raises(FrameError, match="beyond the limits"):
        FrameDecoder().feed(HEADER.pack(*fields))
