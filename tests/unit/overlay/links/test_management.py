"""Management on a link: in its turn, in pieces, within limits at both ends; what is dropped is counted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.engines import engine, federation, with_links
from tests.kit.frames import frame

from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.instructions import HandToAgent, ServeLink
from mangrove.overlay.links import management as limits
from mangrove.overlay.links.management import ManagementLine
from mangrove.overlay.links.outgoing import Outgoing
from mangrove.overlay.protocol.frames import Frame, FrameError, FrameType
from mangrove.overlay.protocol.pieces import MANAGEMENT_STREAM, Joining

PAIR = federation(("a", "b"))


def drain(outgoing: Outgoing, now: float = 0.0) -> list[Frame]:
    frames = []
    while (pulled := outgoing.pull(now)) is not None:
        frames.append(pulled)
    return frames


def arrivals(frames: list[Frame]) -> list[bytes]:
    """What comes of management frames at the other end."""
    joining = Joining(1 << 20)
    bodies = []
    for each in frames:
        if each.type is FrameType.PIECE:
            joining.add(each)
        elif each.type is FrameType.MANAGEMENT:
            bodies.append((joining.join(each) if each.stream else each).body)
    return bodies


def counts(peer: OverlayEngine) -> dict[str, int]:
    return peer.status(0.0).links["b" if peer.domain == "a" else "a"].management.dropped


@given(st.lists(st.integers(1, limits.MAX_MANAGEMENT_BYTES), max_size=12))
def test_all_that_is_taken_arrives_whole_in_pieces_that_no_heartbeat_waits_for(sizes: list[int]) -> None:
    outgoing = Outgoing(1 << 20)
    bodies = [bytes([number]) * size for number, size in enumerate(sizes)]
    taken = [body for body in bodies if outgoing.management.offer(body, 0.0)]
    frames = drain(outgoing)
    assert max((len(each.body) for each in frames), default=0) <= limits.PIECE_BYTES
    assert sorted(arrivals(frames)) == sorted(taken)
    assert outgoing.management.sent == len(taken)
    assert sum(outgoing.management.dropped.values()) == len(bodies) - len(taken)
    assert not outgoing.problems()


def test_small_messages_overtake_large_ones_and_keep_their_order() -> None:
    line = ManagementLine()
    line.offer(b"l" * 20_000, 0.0)
    first = line.pull(float("inf"), 0.0)
    assert first.type is FrameType.PIECE
    for number in range(3):
        line.offer(b"%d" % number, 0.0)
    assert [line.pull(float("inf"), 0.0).body for _ in range(3)] == [b"0", b"1", b"2"]
    assert arrivals([first, line.pull(float("inf"), 0.0), line.pull(float("inf"), 0.0)]) == [b"l" * 20_000]
    assert line.waiting_bytes == 0


def test_management_goes_first_and_has_a_quarter_of_the_bytes_while_data_waits() -> None:
    outgoing = Outgoing(1 << 30)
    for _ in range(400):
        outgoing.push(frame(b"d" * 1000), None, 0.0)
    for _ in range(5):
        outgoing.management.offer(b"m" * 40_000, 0.0)
    frames = [outgoing.pull(0.0) for _ in range(200)]
    assert frames[0] is not None
    assert frames[0].type is FrameType.PIECE
    data = sum(len(each.body) for each in frames if each is not None and each.type is FrameType.DATA)
    rest = sum(len(each.body) for each in frames if each is not None and each.type is not FrameType.DATA)
    assert 0.2 < rest / (rest + data) < 0.3
    assert len(arrivals([each for each in [*frames, *drain(outgoing)] if each is not None])) == 5


def test_management_does_not_wait_for_acknowledgements_of_data() -> None:
    outgoing = Outgoing(limit_bytes=100)
    for _ in range(3):
        outgoing.push(frame(b"y" * 60), None, 0.0)
    drain(outgoing)
    for number in range(3):
        outgoing.management.offer(b"%d" % number, 0.0)
    assert arrivals(drain(outgoing)) == [b"0", b"1", b"2"]


def test_what_waits_is_bounded_and_lost_with_the_link() -> None:
    line = ManagementLine()
    taken = [line.offer(b"x" * 60_000, 0.0) for _ in range(6)]
    assert taken == [True] * 4 + [False] * 2
    assert line.dropped == {limits.QUEUE_FULL: 2}
    line.pull(float("inf"), 0.0)
    line.restart()
    assert line.dropped == {limits.QUEUE_FULL: 2, limits.LINK_LOST: 4}
    assert line.waiting_bytes == 0
    assert not line.problems()


def test_what_is_sent_faster_than_the_limit_is_dropped_and_counted() -> None:
    a = with_links(PAIR, "a")
    allowed = int(limits.MESSAGES_A_SECOND * limits.BURST_S)
    for _ in range(allowed + 7):
        a.send_management("b", b"word", 1.0)
    assert counts(a) == {limits.TOO_FAST: 7}
    assert a.send_management("b", b"word", 1.5) == [ServeLink("b")], "a moment later it may speak again"


def test_bytes_are_limited_as_well_as_messages() -> None:
    line = ManagementLine()
    sent = 0
    for _ in range(100):
        sent += line.offer(b"x" * 60_000, 0.0)
        while line.waiting_bytes:
            line.pull(float("inf"), 0.0)
    assert sent == int(limits.BYTES_A_SECOND * limits.BURST_S / 60_000)
    assert line.dropped == {limits.TOO_FAST: 100 - sent}


def test_what_comes_faster_than_the_limit_is_dropped_and_the_link_stays() -> None:
    b = with_links(PAIR, "b")
    allowed = int(limits.MESSAGES_A_SECOND * limits.BURST_S * limits.RECEIVED_FACTOR)
    handed = [b.receive("a", Frame(FrameType.MANAGEMENT, b"word"), 1.0) for _ in range(allowed + 9)]
    assert handed[0] == [HandToAgent("a", Frame(FrameType.MANAGEMENT, b"word"))]
    assert sum(map(len, handed)) == allowed
    assert counts(b) == {limits.CAME_TOO_FAST: 9}
    assert b.usable("a")


def test_who_keeps_to_the_limit_loses_nothing_at_the_other_end_after_a_hold_up() -> None:
    """Two seconds of a busy sender arrive at once."""
    sender, receiver = ManagementLine(), ManagementLine()
    frames = [sender.pull(float("inf"), 0.0) for step in range(400) if sender.offer(b"x" * 3000, step * 0.01)]
    assert all(receiver.came(each, 4.0) for each in frames[-250:])


def test_a_message_to_a_link_that_is_down_is_dropped_and_counted() -> None:
    a = engine(PAIR, "a")
    assert a.send_management("b", b"word", 1.0) == []
    assert counts(a) == {limits.LINK_DOWN: 1}


@pytest.mark.parametrize(
    ("body", "reason"),
    [(b"", limits.EMPTY), (bytes(limits.MAX_MANAGEMENT_BYTES + 1), limits.TOO_LARGE)],
)
def test_what_cannot_be_carried_is_dropped_and_counted(body: bytes, reason: str) -> None:
    a = with_links(PAIR, "a")
    assert a.send_management("b", body, 1.0) == []
    assert counts(a) == {reason: 1}


def test_a_neighbour_that_sends_more_than_is_agreed_loses_its_connection() -> None:
    b = with_links(PAIR, "b")
    with pytest.raises(FrameError, match="beyond the limits"):
        b.receive("a", Frame(FrameType.MANAGEMENT, bytes(limits.MAX_MANAGEMENT_BYTES + 1)), 1.0)
    with pytest.raises(FrameError, match="whose beginning never came"):
        b.receive("a", Frame(FrameType.MANAGEMENT, b"end", stream=MANAGEMENT_STREAM), 1.0)
