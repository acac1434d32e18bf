"""Frames: what gateways say to each other, as bytes.

    magic "MG" | type u8 | hop limit u8 | body length u32 | origin u16 | mask length u16 | topic class u16 |
    unused u16 | epoch u64 | sequence u64 | destination mask | body

All numbers are big-endian. A data frame carries whole broker messages for a *set* of destination domains, one
bit each (bit i = i-th domain in the agreed order). A transit gateway looks at the mask and never at the body.
`(origin, epoch, sequence)` names a frame: the epoch is the start of the origin's gateway process.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

import msgspec

from mangrove.errors import MangroveError

PROTOCOL_VERSION = 1
MAGIC = b"MG"
HEADER = struct.Struct(">2sBBIHHHxxQQ")
MAX_BODY_BYTES = 64 << 20
MAX_MASK_BYTES = 1024


class FrameError(MangroveError):
    """Bytes from a peer that are not a frame, or a frame that may not come now. The link is closed."""


class FrameType(IntEnum):
    """What a frame is for."""

    HELLO = 1
    DATA = 2
    INTEREST = 3
    DIGEST = 4
    GOODBYE = 5


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame. Control frames leave the routing fields at zero."""

    type: FrameType
    body: bytes = b""
    hop_limit: int = 1
    origin: int = 0
    topic_class: int = 0
    epoch: int = 0
    sequence: int = 0
    destinations: int = 0

    def head(self) -> bytes:
        """Header and mask; the body follows as it is, so that forwarding never copies it."""
        mask = self.destinations.to_bytes((self.destinations.bit_length() + 7) // 8, "big")
        return (
            HEADER.pack(
                MAGIC,
                self.type,
                self.hop_limit,
                len(self.body),
                self.origin,
                len(mask),
                self.topic_class,
                self.epoch,
                self.sequence,
            )
            + mask
        )

    def encode(self) -> bytes:
        """The whole frame as bytes."""
        return self.head() + self.body

    def towards(self, destinations: int) -> Frame:
        """The same frame one hop further, for a part of its destinations."""
        return Frame(
            self.type,
            self.body,
            self.hop_limit - 1,
            self.origin,
            self.topic_class,
            self.epoch,
            self.sequence,
            destinations,
        )


class FrameDecoder:
    """Splits a byte stream into frames; keeps at most one incomplete frame."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._needed = HEADER.size

    @property
    def held_bytes(self) -> int:
        """Bytes of an incomplete frame; not zero at the end of a connection means it was cut off."""
        return len(self._held)

    def feed(self, data: bytes) -> list[Frame]:
        """Decode what is complete. Raises FrameError on the first byte that cannot belong to a frame."""
        if self._held:
            self._held += data
            if len(self._held) < self._needed:
                return []
            data = bytes(self._held)
            self._held.clear()
        frames: list[Frame] = []
        position = 0
        while True:
            needed = _frame_length(data, position)
            if position + needed > len(data):
                break
            frames.append(_decode(data, position, needed))
            position += needed
        self._held += data[position:] if position else data
        self._needed = needed
        return frames


def _frame_length(data: bytes, position: int) -> int:
    """Length of the frame at `position`; the header's own length while the header is incomplete."""
    start = data[position : position + len(MAGIC)]
    if start != MAGIC[: len(start)]:
        raise FrameError(f"garbage where a frame should start: {data[position : position + 16]!r}")
    if len(data) - position < HEADER.size:
        return HEADER.size
    _, kind, _, body, _, mask, _, _, _ = HEADER.unpack_from(data, position)
    if kind not in _KNOWN_TYPES:
        raise FrameError(f"unknown frame type {kind}")
    if body > MAX_BODY_BYTES or mask > MAX_MASK_BYTES:
        raise FrameError(f"a frame of {body} bytes with a mask of {mask} bytes is beyond the limits")
    return HEADER.size + int(mask) + int(body)


_KNOWN_TYPES = frozenset(FrameType)


def _decode(data: bytes, position: int, length: int) -> Frame:
    _, kind, hops, _, origin, mask, topic_class, epoch, sequence = HEADER.unpack_from(data, position)
    body_at = position + HEADER.size + mask
    return Frame(
        FrameType(kind),
        data[body_at : position + length],
        hops,
        origin,
        topic_class,
        epoch,
        sequence,
        int.from_bytes(data[position + HEADER.size : body_at], "big"),
    )


class Hello(msgspec.Struct, frozen=True, kw_only=True):
    """The first frame on a link, from both sides."""

    protocol: int
    federation: str
    topology: str
    domain: str
    epoch: int


class InterestUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """Subjects that the subscribers of one domain want: the whole list, or the change since version - 1."""

    origin: str
    epoch: int
    version: int
    snapshot: bool
    added: list[str]
    removed: list[str] = []


class Digest(msgspec.Struct, frozen=True, kw_only=True):
    """What a gateway knows: (epoch, version) of the interest of every domain it has heard of."""

    known: dict[str, tuple[int, int]]


class Goodbye(msgspec.Struct, frozen=True, kw_only=True):
    """Why a link is being closed."""

    reason: str


ControlBody = Hello | InterestUpdate | Digest | Goodbye
_TYPE_OF: dict[type[ControlBody], FrameType] = {
    Hello: FrameType.HELLO,
    InterestUpdate: FrameType.INTEREST,
    Digest: FrameType.DIGEST,
    Goodbye: FrameType.GOODBYE,
}
_DECODERS: dict[FrameType, msgspec.msgpack.Decoder[ControlBody]] = {
    frame_type: msgspec.msgpack.Decoder(body) for body, frame_type in _TYPE_OF.items()
}


def control_frame(body: ControlBody) -> Frame:
    """A frame around a control message."""
    return Frame(_TYPE_OF[type(body)], msgspec.msgpack.encode(body))


def control_body(frame: Frame) -> ControlBody:
    """The validated control message of a frame, or FrameError."""
    try:
        return _DECODERS[frame.type].decode(frame.body)
    except (msgspec.DecodeError, KeyError) as error:
        raise FrameError(f"malformed {frame.type.name} frame: {error}") from None
