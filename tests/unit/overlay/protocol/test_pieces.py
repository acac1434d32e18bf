"""Large frames in pieces: cut, overtaken, joined, given up, and refused when they make no sense."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.kit.engines import federation, with_links

from mangrove.overlay.instructions import DeliverMessages, ServeLink
from mangrove.overlay.links.outgoing import Outgoing
from mangrove.overlay.protocol.control_messages import Heartbeat, HeartbeatKind, control_frame
from mangrove.overlay.protocol.frames import Frame, FrameDecoder, FrameError, FrameType
from mangrove.overlay.protocol.pieces import MAX_STREAMS, MIN_PIECE_BYTES, Joining, LinkRate


def slow_link(limit_bytes: int = 1 << 20) -> Outgoing:
    """A link that has proved to be slow: pieces are as small as can be."""
    outgoing = Outgoing(limit_bytes)
    outgoing.push(Frame(FrameType.DATA, b"x"), None, 0.0)
    outgoing.settle(0.0)
    outgoing.settle(1.0)
    assert outgoing.pull(1.0) is not None
    outgoing.acknowledge(1)
    return outgoing


def data(body: bytes, **fields: int) -> Frame:
    return replace(Frame(FrameType.DATA, body), **fields)


def pull_all(outgoing: Outgoing, now: float = 1.0) -> list[Frame]:
    frames = []
    while (frame := outgoing.pull(now)) is not None:
        frames.append(frame)
    return frames


def joined(frames: list[Frame], limit_bytes: int = 1 << 20) -> list[Frame]:
    """What the neighbour makes of the bytes."""
    joining = Joining(limit_bytes)
    whole = []
    for frame in FrameDecoder().feed(b"".join(frame.encode() for frame in frames)):
        if frame.type is FrameType.PIECE:
            joining.add(frame)
        else:
            whole.append(joining.join(frame) if frame.stream else frame)
    return whole


@given(st.lists(st.tuples(st.integers(0, 40_000), st.none() | st.floats(2, 100)), max_size=12), st.data())
def test_whatever_is_cut_and_overtaken_arrives_whole(
    frames: list[tuple[int, float | None]], draw: st.DataObject
) -> None:
    outgoing = slow_link()
    sent = []
    for number, (size, due) in enumerate(frames):
        outgoing.push(data(bytes([number]) * size, sequence=number), due, 1.0)
        for _ in range(draw.draw(st.integers(0, 3))):
            sent += [frame for frame in [outgoing.pull(1.0)] if frame is not None]
    sent += pull_all(outgoing)
    assert max((len(frame.body) for frame in sent), default=0) <= 2 * MIN_PIECE_BYTES
    whole = joined(sent)
    assert {(f.sequence, f.body) for f in whole} == {(n, bytes([n]) * s) for n, (s, _) in enumerate(frames)}
    assert outgoing.unacknowledged == len(frames)
    outgoing.acknowledge(1 + len(frames))
    assert outgoing.restart(2.0) == [], "acknowledged in the order in which they were complete"


def test_an_urgent_frame_waits_for_one_piece_only() -> None:
    outgoing = slow_link()
    outgoing.push(data(b"b" * 100_000), None, 1.0)
    first = outgoing.pull(1.0)
    assert first is not None
    assert first.type is FrameType.PIECE
    outgoing.push(data(b"alarm"), 1.5, 1.1)
    assert outgoing.pull(1.1) == data(b"alarm")
    assert joined([first, *pull_all(outgoing, 3.0)])[0].age_us == 2_000_000, "as old as when its end leaves"


def test_a_frame_that_had_only_begun_goes_another_way_as_a_whole() -> None:
    outgoing = slow_link()
    outgoing.push(data(b"b" * 100_000), None, 1.0)
    outgoing.pull(1.0)
    assert [(len(frame.body), frame.stream) for frame in outgoing.restart(2.0)] == [(100_000, 0)]
    outgoing.push(data(b"b" * 100_000), None, 3.0)
    again = outgoing.pull(3.0)
    assert again is not None
    assert len(again.body) == 100_000, "a new connection is not slow before it has proved to be"


def test_a_link_that_keeps_up_is_not_slow() -> None:
    rate = LinkRate()
    for second in range(5):
        rate.took(1000)
        rate.idle()
        rate.settle(backlogged=True, now=float(second))
    assert rate.piece_bytes == float("inf")
    for second in range(5, 30):
        rate.took(10_000_000)
        rate.settle(backlogged=True, now=float(second))
    assert rate.piece_bytes == pytest.approx(100_000, rel=0.01), "a hundredth of a second"


def test_nonsense_in_pieces_closes_the_link() -> None:
    joining = Joining(limit_bytes=1000)
    with pytest.raises(FrameError, match="beginning never came"):
        joining.join(data(b"end", stream=5))
    with pytest.raises(FrameError, match="in pieces"):
        joining.add(Frame(FrameType.PIECE, b"x" * 1001, stream=1))
    joining.clear()
    for stream in range(MAX_STREAMS):
        joining.add(Frame(FrameType.PIECE, b"x", stream=stream))
    with pytest.raises(FrameError, match="unfinished frames"):
        joining.add(Frame(FrameType.PIECE, b"x", stream=MAX_STREAMS))


def test_a_gateway_joins_pieces_and_forgets_them_with_their_connection() -> None:
    shape = federation(("a", "b"))
    receiver = with_links(shape, "b")
    end = data(b"end", hop_limit=5, epoch=1, sequence=1, destinations=0b10, stream=3)
    assert receiver.receive("a", Frame(FrameType.PIECE, b"the ", stream=3), 1.0) == []
    (delivered,) = receiver.receive("a", end, 1.0)
    assert isinstance(delivered, DeliverMessages)
    assert delivered.frame.body == b"the end"
    receiver.receive("a", Frame(FrameType.PIECE, b"half", stream=4), 1.0)
    receiver.peer_down("a", 1.0, "cut")
    receiver.peer_up("a", 2.0)
    with pytest.raises(FrameError, match="beginning never came"):
        receiver.receive("a", data(b"", hop_limit=5, epoch=1, sequence=2, destinations=0b10, stream=4), 2.0)


def test_a_frame_that_is_being_cut_goes_on_when_an_acknowledgement_makes_room() -> None:
    sender = with_links(federation(("a", "b")), "a")
    outgoing = sender._neighbours["b"].outgoing
    for now in (0.0, 1.0):
        outgoing.push(data(b"x"), None, now)
        outgoing.settle(now)
    outgoing.push(data(b"y" * 100_000), None, 1.0)
    for _ in range(3):
        outgoing.pull(1.0)
    assert not outgoing.waiting
    acknowledgement = Heartbeat(kind=HeartbeatKind.REGULAR, sequence=1, sent=1.0, received=2)
    assert ServeLink("b") in sender.receive("b", control_frame(acknowledgement), 1.0)
