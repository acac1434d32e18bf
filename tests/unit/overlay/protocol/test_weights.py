"""Whatever a frame is made of takes memory: queues that are bounded in bytes are not filled without any."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.kit.engines import federation, with_links

from mangrove.overlay.delivery import resequencer as resequencer_module
from mangrove.overlay.delivery.resequencer import Resequencer
from mangrove.overlay.forwarding.parked_frames import ParkedFrames
from mangrove.overlay.links.outgoing import Outgoing
from mangrove.overlay.protocol.frames import (
    FEWEST_FRAMES,
    NOTE_BYTES,
    TAG_BYTES,
    Frame,
    FrameError,
    FrameType,
    Predecessor,
    Tag,
)
from mangrove.overlay.protocol.pieces import FEWEST_PIECES, Joining

EMPTY = Frame(FrameType.DATA, destinations=1)
TAGGED = replace(EMPTY, tags=tuple(Tag(place, bytes(TAG_BYTES)) for place in range(200)))
LIMIT = 1 << 16


def numbered(count: int, frame: Frame = EMPTY) -> list[Frame]:
    return [replace(frame, sequence=number) for number in range(2, count + 2)]


def test_tags_and_predecessors_have_a_weight() -> None:
    assert EMPTY.weight_bytes == 0
    assert TAGGED.weight_bytes == 200 * NOTE_BYTES
    both = replace(TAGGED, body=b"x", predecessors=(Predecessor(1, 1, 1),))
    assert both.weight_bytes == 201 * NOTE_BYTES + 1


@pytest.mark.parametrize("frame", [EMPTY, TAGGED])
def test_what_waits_for_a_link_is_bounded_without_any_body(frame: Frame) -> None:
    outgoing = Outgoing(LIMIT)
    displaced = [
        gone for each in numbered(2 * FEWEST_FRAMES, frame) for gone in outgoing.push(each, None, 0.0)
    ]
    kept = 2 * FEWEST_FRAMES - len(displaced)
    assert kept == (FEWEST_FRAMES if frame is EMPTY else LIMIT // TAGGED.weight_bytes)
    assert not outgoing.problems()


@pytest.mark.parametrize("frame", [EMPTY, TAGGED])
def test_a_neighbour_that_acknowledges_nothing_gets_no_more(frame: Frame) -> None:
    outgoing = Outgoing(LIMIT)
    sent = 0
    for each in numbered(2 * FEWEST_FRAMES, frame):
        outgoing.push(each, None, 0.0)
        sent += outgoing.pull(0.0) is not None
    assert sent <= FEWEST_FRAMES
    assert outgoing.unacknowledged == sent
    assert not outgoing.problems()
    outgoing.acknowledge(sent)
    assert outgoing.pull(0.0) is not None
    assert not outgoing.problems()


@pytest.mark.parametrize("frame", [EMPTY, TAGGED])
def test_what_has_no_way_is_bounded(frame: Frame) -> None:
    parked = ParkedFrames(LIMIT)
    for each in numbered(2 * FEWEST_FRAMES, frame):
        parked.park(each, 0.0, 10.0)
    assert len(parked.release(0.0)) <= FEWEST_FRAMES


def test_what_is_ahead_of_its_turn_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    class Patient:
        def hold_s(self, _: Frame) -> float:
            return 10.0

    monkeypatch.setattr(resequencer_module, "MAX_HELD_FRAMES", 100)
    ordering = Resequencer(Patient())
    out = 0
    for each in numbered(500):
        out += len(ordering.arrived(replace(each, sequence=each.sequence * 2), 0.0))
        assert not ordering.problems()
    assert out >= 400


def test_pieces_of_nothing_end_a_link() -> None:
    joining = Joining(1 << 10)
    piece = Frame(FrameType.PIECE, stream=1)
    for _ in range(FEWEST_PIECES):
        joining.add(piece)
    with pytest.raises(FrameError, match="pieces"):
        joining.add(piece)


def test_more_proofs_than_domains_end_a_link() -> None:
    engine = with_links(federation(("a", "b")), "b")
    with pytest.raises(FrameError, match="tags"):
        engine.receive("a", TAGGED, 1.0)
