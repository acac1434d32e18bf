"""Frames: what gateways say to each other, as bytes.

    magic "MG" | type u8 | hop limit u8 | body length u32 | origin u16 | mask length u16 | topic class u16 |
    stream u16 | way u16 | predecessors length u16 | number of tags u16 | epoch u64 | label u32 | age u32 |
    flow id u32 | sequence u64 | destination mask |
    predecessors (flow id u32, sequence u64, mask length u16, mask) | tags (destination u16, 16 bytes) | body

All numbers are big-endian. A data frame carries whole broker messages for a *set* of destination domains, one
bit each (bit i = i-th domain in the agreed order). A transit gateway looks at the head and never at the body.
`(origin, epoch, flow id, sequence)` names a frame: the epoch is the start of the origin's gateway process, a
flow is what goes from there to one set of destinations under one contract, and the sequence counts its
frames. A label, if not zero, names an
established route of the origin. The age is the time since the origin took the messages in, in microseconds;
every gateway adds what it knows, so that no clocks need to agree. A stream, if not zero, says that other
pieces of the body came before (see `pieces`). The way tells paths apart: every gateway that passes a frame on
mixes its number in. Predecessors are frames of the same origin, in other flows, that come before this one
(see `delivery.resequencer`). A tag proves to one destination who sent the frame (see
`trust.frame_tags`); there are none where domains have no keys.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from mangrove.errors import MangroveError

PROTOCOL_VERSION = 11
LOWEST_PROTOCOL = 10
"""Gateways of the release before are understood, which know nothing of versions."""
VERSIONS_PROTOCOL = 11
"""Since which versions of the federation document are spoken of."""
MAGIC = b"MG"
HEADER = struct.Struct(">2sBBIHHHHHHHQIIIQ")
MAX_BODY_BYTES = 64 << 20
MAX_MASK_BYTES = 1024
MAX_PREDECESSORS_BYTES = 4096
MAX_AGE_US = (1 << 32) - 1
TAG_BYTES = 16
MAX_TAGS = 8 * MAX_MASK_BYTES


NOTE_BYTES = 128
"""About what a tag or a predecessor takes in memory."""
FEWEST_FRAMES = 1024
FRAME_BYTES = 512
"""About what a frame takes in memory besides its body: a queue that may hold many bytes holds so many."""

_PREDECESSOR = struct.Struct(">IQH")
_TAG = struct.Struct(f">H{TAG_BYTES}s")


class FrameError(MangroveError):
    """Bytes from a peer that are not a frame, or a frame that may not come now. The link is closed."""


class Name(NamedTuple):
    """What tells a frame from all others."""

    origin: int
    epoch: int
    flow_id: int
    sequence: int


NAME = struct.Struct(">HQIQ")
"""The fields of a name, packed."""


YOUNG = 16
"""Who hears of a flow by a later frame first has missed its beginning, unless that frame says that its flow
began lately."""


class Predecessor(NamedTuple):
    """A frame of the same origin that some of a frame's destinations get before it.

    Number 0 of a frame's own flow, for no destination, says that the flow began lately.
    """

    flow_id: int
    sequence: int
    destinations: int


class Tag(NamedTuple):
    """What proves to one destination, by its place in the agreed order, who sent a frame."""

    destination: int
    proof: bytes


class FrameType(IntEnum):
    """What a frame is for."""

    HELLO = 1
    DATA = 2
    INTEREST = 3
    DIGEST = 4
    GOODBYE = 5
    HEARTBEAT = 6
    LINK_STATE = 7
    ROUTE = 8
    PIECE = 9
    JOBS = 10
    """Data whose messages name queue groups: should the destination be lost, another may serve them."""
    MANAGEMENT = 11
    """What the agents of two linked domains say to each other; opaque, and never passed on."""
    RENEWAL = 12
    """Another connection takes the place of this one; the link goes on."""
    VERSIONS = 13
    """What is in force, promised and proposed of the federation document (see `overlay.versions`)."""


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One frame. Control frames leave the routing fields at zero."""

    type: FrameType
    body: bytes = b""
    hop_limit: int = 1
    origin: int = 0
    topic_class: int = 0
    epoch: int = 0
    destinations: int = 0
    label: int = 0
    age_us: int = 0
    flow_id: int = 0
    sequence: int = 0
    stream: int = 0
    way: int = 0
    predecessors: tuple[Predecessor, ...] = ()
    tags: tuple[Tag, ...] = ()

    @property
    def name(self) -> Name:
        """What tells this frame from all others."""
        return Name(self.origin, self.epoch, self.flow_id, self.sequence)

    def head(self) -> bytes:
        """Header and mask; the body follows as it is, so that forwarding never copies it."""
        mask = _mask(self.destinations)
        predecessors = encode_predecessors(self.predecessors) if self.predecessors else b""
        return (
            HEADER.pack(
                MAGIC,
                self.type,
                self.hop_limit,
                len(self.body),
                self.origin,
                len(mask),
                self.topic_class,
                self.stream,
                self.way,
                len(predecessors),
                len(self.tags),
                self.epoch,
                self.label,
                self.age_us,
                self.flow_id,
                self.sequence,
            )
            + mask
            + predecessors
            + (b"".join(_TAG.pack(*tag) for tag in self.tags) if self.tags else b"")
        )

    @property
    def begun_lately(self) -> bool:
        """Whether its flow is so young that all frames before this one may still be on their way."""
        return self.sequence <= YOUNG or any(each.flow_id == self.flow_id for each in self.predecessors)

    @property
    def weight_bytes(self) -> int:
        """What it takes to keep the frame, as queues count it; how many they may hold is another limit."""
        if self.tags or self.predecessors:
            return len(self.body) + NOTE_BYTES * (len(self.tags) + len(self.predecessors))
        return len(self.body)

    def encode(self) -> bytes:
        """The whole frame as bytes."""
        return self.head() + self.body

    def towards(self, destinations: int, label: int = 0) -> Frame:
        """The same frame for a part of its destinations, by table or by a label."""
        return replace(self, destinations=destinations, label=label, tags=self._tags_for(destinations))

    def onward(self, destinations: int, label: int, gateway: int) -> Frame:
        """The same frame one hop further, passed on by the gateway of this number."""
        way = (self.way * 31 + gateway + 1) & 0xFFFF
        return replace(
            self,
            destinations=destinations,
            label=label,
            hop_limit=self.hop_limit - 1,
            way=way,
            tags=self._tags_for(destinations),
        )

    def _tags_for(self, destinations: int) -> tuple[Tag, ...]:
        if not self.tags or destinations == self.destinations:
            return self.tags
        return tuple(tag for tag in self.tags if destinations >> tag.destination & 1)

    def older(self, seconds: float) -> Frame:
        """The same frame after some time."""
        return replace(self, age_us=min(MAX_AGE_US, self.age_us + int(seconds * 1e6)))


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
    _, kind, _, body, _, mask, _, _, _, predecessors, tags, *_ = HEADER.unpack_from(data, position)
    if kind not in _KNOWN_TYPES:
        raise FrameError(f"unknown frame type {kind}")
    if body > MAX_BODY_BYTES or mask > MAX_MASK_BYTES:
        raise FrameError(f"a frame of {body} bytes with a mask of {mask} bytes is beyond the limits")
    if predecessors > MAX_PREDECESSORS_BYTES:
        raise FrameError(f"a frame with {predecessors} bytes of predecessors is beyond the limits")
    if tags > MAX_TAGS:
        raise FrameError(f"a frame with {tags} tags is beyond the limits")
    return HEADER.size + int(mask) + int(predecessors) + int(tags) * _TAG.size + int(body)


_KNOWN_TYPES = frozenset(FrameType)


def _decode(data: bytes, position: int, length: int) -> Frame:
    fields = HEADER.unpack_from(data, position)
    _, kind, hop_limit, _, origin, mask, topic_class, stream, way, before, tags, *rest = fields
    epoch, label, age, flow, number = rest
    mask_end = position + HEADER.size + mask
    tags_at = mask_end + before
    body_at = tags_at + tags * _TAG.size
    return Frame(
        type=FrameType(kind),
        body=data[body_at : position + length],
        hop_limit=hop_limit,
        origin=origin,
        topic_class=topic_class,
        epoch=epoch,
        destinations=int.from_bytes(data[position + HEADER.size : mask_end], "big"),
        label=label,
        age_us=age,
        flow_id=flow,
        sequence=number,
        stream=stream,
        way=way,
        predecessors=_decode_predecessors(data[mask_end:tags_at]) if before else (),
        tags=tuple(map(Tag._make, _TAG.iter_unpack(data[tags_at:body_at]))) if tags else (),
    )


def most_frames(limit_bytes: int) -> int:
    """How many frames a queue of so many bytes may hold: those without a body take memory as well."""
    return max(FEWEST_FRAMES, limit_bytes // FRAME_BYTES)


def _mask(destinations: int) -> bytes:
    return destinations.to_bytes((destinations.bit_length() + 7) // 8, "big")


def encode_predecessors(predecessors: Iterable[Predecessor]) -> bytes:
    """Predecessors as they stand in a frame's head."""
    parts: list[bytes] = []
    for flow_id, sequence, destinations in predecessors:
        mask = _mask(destinations)
        parts += (_PREDECESSOR.pack(flow_id, sequence, len(mask)), mask)
    return b"".join(parts)


def _decode_predecessors(data: bytes) -> tuple[Predecessor, ...]:
    found: list[Predecessor] = []
    position = 0
    while position < len(data):
        if position + _PREDECESSOR.size > len(data):
            raise FrameError("the predecessors of a frame are cut off")
        flow_id, sequence, length = _PREDECESSOR.unpack_from(data, position)
        position += _PREDECESSOR.size + length
        if position > len(data):
            raise FrameError("the predecessors of a frame are cut off")
        mask = data[position - length : position]
        found.append(Predecessor(flow_id, sequence, int.from_bytes(mask, "big")))
    return tuple(found)
