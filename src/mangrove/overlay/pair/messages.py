"""What the two gateways of a domain say to each other, as bytes: records with a length and a kind.

    length u32 | kind u8 | body

Bodies are msgpack, but for names of frames, of which there may be many, and words of interest, which are
bodies of control frames as they came.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from enum import Enum, IntEnum, StrEnum
from typing import Annotated

import msgspec

from mangrove.model.unreadable import UNREADABLE
from mangrove.overlay.protocol.control_messages import Heartbeat
from mangrove.overlay.protocol.frames import NAME, FrameError, Name

MAX_RECORD_BYTES = 1 << 20
NAMES_PER_RECORD = 4096
_HEAD = struct.Struct(">IB")


class Role(Enum):
    """What a gateway of a pair does."""

    STARTING = "starting"
    """It asks what the other one does."""
    STANDBY = "standby"
    """It is told what the other one delivers, and waits."""
    TAKING_OVER = "taking over"
    """It begins to carry."""
    ACTIVE = "active"
    DISPLACED = "displaced"
    """The other one carries since later: this one lets go of everything, and then stands by."""


class RecordKind(IntEnum):
    """What a record is for."""

    HELLO = 1
    BEAT = 2
    NAMES = 3
    """Frames that are delivered next."""
    INTEREST = 4
    DIGEST = 5
    GOODBYE = 6
    LAST = 7
    """Another connection takes the place of this one."""
    VERSIONS = 8
    """What the gateway that carries has written down of versions of the federation document."""


class PairHello(msgspec.Struct, frozen=True, kw_only=True):
    """The first record, from both sides: only gateways of one domain under one file belong together."""

    federation: str
    topology: str
    domain: str
    number: Annotated[int, msgspec.Meta(ge=1, le=2)]
    renews: bool = False
    """The connection shall take the place of another; the answer says whether it does."""


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What the gateway that carries has counted, so that its account does not die with it."""

    sent: Annotated[int, msgspec.Meta(ge=0)] = 0
    delivered: Annotated[int, msgspec.Meta(ge=0)] = 0
    given_up: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Messages that it let go of when it was displaced, since its process started."""
    leaves_s: Annotated[float, msgspec.Meta(ge=0, le=60)] = 0.0
    """For how long publishers may have leave to be silent, without asking again."""
    broker: Annotated[str, msgspec.Meta(max_length=256)] = ""
    """Where it is attached; empty while it is not."""


class Beat(msgspec.Struct, frozen=True, kw_only=True):
    """A sign of life, with the sender's role, and the latest life of a gateway here that it knows of."""

    role: Role
    epoch: Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
    heartbeat: Heartbeat
    figures: Figures = Figures()


class Ending(StrEnum):
    """Why a line is closed on purpose."""

    STOPS = "the gateway stops"
    SILENT = "nothing was heard any more"


class PairGoodbye(msgspec.Struct, frozen=True, kw_only=True):
    """The line is closed on purpose; without this word, whoever was at the other end has died."""

    ending: Ending


Word = PairHello | Beat | PairGoodbye

_KINDS: dict[type[Word], RecordKind] = {
    PairHello: RecordKind.HELLO,
    Beat: RecordKind.BEAT,
    PairGoodbye: RecordKind.GOODBYE,
}
_DECODERS: dict[RecordKind, msgspec.msgpack.Decoder[Word]] = {
    RecordKind.HELLO: msgspec.msgpack.Decoder(PairHello),
    RecordKind.BEAT: msgspec.msgpack.Decoder(Beat),
    RecordKind.GOODBYE: msgspec.msgpack.Decoder(PairGoodbye),
}
_encode = msgspec.msgpack.Encoder().encode


def record(kind: RecordKind, body: bytes) -> bytes:
    """A record around a body."""
    return _HEAD.pack(len(body), kind) + body


def word_record(word: Word) -> bytes:
    """A record of something that is said."""
    return record(_KINDS[type(word)], _encode(word))


def read_word(kind: RecordKind, body: bytes) -> Word:
    """What a record says, or FrameError."""
    decoder = _DECODERS.get(kind)
    if decoder is None:
        raise FrameError(f"a record of the kind {kind.name} says nothing")
    try:
        return decoder.decode(body)
    except UNREADABLE as error:
        raise FrameError(f"malformed {kind.name} of the other gateway: {error}") from None


def names_records(names: Iterable[Name]) -> bytes:
    """Records of frames' names."""
    packed = b"".join(NAME.pack(*name) for name in names)
    step = NAMES_PER_RECORD * NAME.size
    return b"".join(
        record(RecordKind.NAMES, packed[start : start + step]) for start in range(0, len(packed), step)
    )


def read_names(body: bytes) -> list[Name]:
    """The names in a record, or FrameError."""
    if len(body) % NAME.size:
        raise FrameError("a record of names is cut off")
    return [Name(*fields) for fields in NAME.iter_unpack(body)]


class RecordReader:
    """Cuts what comes from the line into records."""

    def __init__(self) -> None:
        self._held = bytearray()

    @property
    def held_bytes(self) -> int:
        """Bytes of a record that is not complete."""
        return len(self._held)

    def feed(self, data: bytes) -> list[tuple[RecordKind, bytes]]:
        """The records that are complete, or FrameError."""
        self._held += data
        found: list[tuple[RecordKind, bytes]] = []
        position = 0
        while position + _HEAD.size <= len(self._held):
            length, number = _HEAD.unpack_from(self._held, position)
            if length > MAX_RECORD_BYTES or number not in RecordKind._value2member_map_:
                raise FrameError(f"no record of a gateway of this domain: kind {number}, {length} bytes")
            end = position + _HEAD.size + length
            if end > len(self._held):
                break
            found.append((RecordKind(number), bytes(self._held[position + _HEAD.size : end])))
            position = end
        del self._held[:position]
        return found
