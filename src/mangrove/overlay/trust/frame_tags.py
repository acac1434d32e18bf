"""Tags on data frames: each destination can tell that a frame is its origin's, and meant for it.

Signatures would cost too much here. Two domains share a key that nobody else has, so a short keyed hash of
the frame does: over its name, its contract, its kind, its predecessors and its body, for one origin and one
destination. What changes on the way (label, hops, age, the other destinations) is left out. Without
tags a neighbour could not only send in others' names; a single frame with the next thousand numbers of a
flow would make its true frames look like duplicates. Who gets a frame from its origin's own gateway needs no
tag: the link proves who speaks.
"""

from __future__ import annotations

import struct
from hashlib import sha256

from mangrove.overlay.protocol.frames import NAME, Frame, Tag, encode_predecessors
from mangrove.overlay.trust.trust import Trust

_FIXED = struct.Struct(">BHH")


def content(frame: Frame) -> bytes:
    """What a tag is over, but for the destination."""
    body = sha256(frame.body).digest()
    before = encode_predecessors(frame.predecessors) if frame.predecessors else b""
    return NAME.pack(*frame.name) + body + before


def tags_for(frame: Frame, said: bytes, credentials: dict[int, bytes], trust: Trust) -> tuple[Tag, ...]:
    """A tag for each destination whose credential is known; `said` is the frame's content."""
    return tuple(
        Tag(place, trust.tag(credential, _to(frame, place) + said))
        for place, credential in credentials.items()
    )


def proves_origin(frame: Frame, place: int, credentials: tuple[bytes, ...], trust: Trust) -> bool:
    """Whether a frame has the tag of its origin for the domain at this place."""
    tag = next((proof for destination, proof in frame.tags if destination == place), None)
    return tag is not None and trust.tagged(credentials, _to(frame, place) + content(frame), tag)


def _to(frame: Frame, place: int) -> bytes:
    return _FIXED.pack(frame.type, frame.topic_class, place)
