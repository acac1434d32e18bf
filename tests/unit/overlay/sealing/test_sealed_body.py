"""The format of sealed bodies: what is read was written, and what is cut off is refused."""

from __future__ import annotations

import pytest

from mangrove.overlay.protocol.frames import Frame, FrameType
from mangrove.overlay.sealing.sealed_body import (
    Envelope,
    Recipient,
    SealedBody,
    SealFormatError,
    bound_facts,
    claimed_messages,
    is_sealed,
    read_envelope,
    take_apart,
)

ENVELOPE = Envelope(
    5, b"s" * 16, b"o" * 8, (Recipient(1, b"b" * 8, b"w" * 48), Recipient(9, b"c" * 8, b"v" * 48))
)
BODY = SealedBody(ENVELOPE.encode(), 3, 77, b"c" * 60)


def test_what_is_read_was_written() -> None:
    written = BODY.encode()
    assert is_sealed(written)
    assert take_apart(written) == BODY
    assert read_envelope(take_apart(written).envelope) == ENVELOPE
    assert ENVELOPE.destinations == 1 << 1 | 1 << 9


@pytest.mark.parametrize("length", [0, 3, 4, 37, 38, 100, 153, 154, 166, 180])
def test_what_is_cut_off_is_refused(length: int) -> None:
    with pytest.raises(SealFormatError):
        take_apart(BODY.encode()[:length])
    with pytest.raises(SealFormatError):
        read_envelope(ENVELOPE.encode()[: min(length, 150)])


def test_a_body_sealed_for_nobody_or_for_too_many_is_refused() -> None:
    for recipients in (b"\x00\x00", b"\xff\xff"):
        with pytest.raises(SealFormatError, match="domains"):
            take_apart(ENVELOPE.encode()[:36] + recipients + bytes(5000))


def test_nobody_can_claim_more_messages_than_a_body_has_room_for() -> None:
    assert claimed_messages(BODY.encode()) == 3
    assert claimed_messages(BODY._replace(messages=1 << 31).encode()) == 5
    assert claimed_messages(b"LMSG x 0\r\n\r\n") == 0


def test_what_changes_on_the_way_is_not_bound_to_the_body() -> None:
    frame = Frame(FrameType.DATA, b"", 32, 1, 2, 3, 0b1100, flow_id=4, sequence=5)
    later = frame.onward(0b100, 8, 3).older(2.0)
    assert bound_facts(frame) == bound_facts(later)
