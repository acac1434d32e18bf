"""Control messages that are signed by their origin: to the bytes that are signed, and back."""

from __future__ import annotations

import msgspec

from mangrove.model.unreadable import UNREADABLE
from mangrove.overlay.protocol.control_messages import (
    DangerNotice,
    InterestUpdate,
    LinkStateAd,
    RouteSetup,
)
from mangrove.overlay.protocol.frames import Frame, FrameError, FrameType
from mangrove.overlay.protocol.signed import InterestStatement, Signed
from mangrove.overlay.versions.messages import VersionNotice

SignedMessage = LinkStateAd | DangerNotice | RouteSetup | VersionNotice
Signable = SignedMessage | InterestStatement

_encode = msgspec.msgpack.Encoder().encode
_DECODERS: dict[FrameType, msgspec.msgpack.Decoder[SignedMessage]] = {
    FrameType.LINK_STATE: msgspec.msgpack.Decoder(LinkStateAd | DangerNotice),
    FrameType.ROUTE: msgspec.msgpack.Decoder(RouteSetup),
    FrameType.VERSIONS: msgspec.msgpack.Decoder(VersionNotice),
}
_statement_decoder = msgspec.msgpack.Decoder(InterestStatement)


def words(message: Signable) -> bytes:
    """What is signed of a message: all of it, with its kind."""
    return _encode(message)


def signed_frame(frame_type: FrameType, signed: Signed) -> Frame:
    """A frame around something signed."""
    return Frame(frame_type, _encode(signed))


def signed_message(frame_type: FrameType, signed: Signed) -> SignedMessage:
    """What was signed, or FrameError if a frame of this type cannot say it."""
    try:
        return _DECODERS[frame_type].decode(signed.said)
    except UNREADABLE as error:
        raise FrameError(f"malformed words in a signed {frame_type.name} frame: {error}") from None


def interest_statement(signed: Signed) -> InterestStatement:
    """What an origin has signed of its interest, or FrameError."""
    try:
        return _statement_decoder.decode(signed.said)
    except UNREADABLE as error:
        raise FrameError(f"no statement about interest: {error}") from None


def changed_wants(update: InterestUpdate) -> bytes:
    """What an update changes, as bytes that cannot be read in two ways."""
    return _encode((update.added, update.removed))
