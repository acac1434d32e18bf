"""What is said on the management broker for the status stream, and where.

Who wants to listen says so on `watch_subject`, again and again; as long as somebody does, each part of the
domain says on a subject of its own what changed. Nobody keeps a list of listeners.
"""

from __future__ import annotations

import zlib
from typing import Any

import msgspec

GATEWAY_PART, TOPICS_PART, AGENT_PART = "gateway", "topics", "agent"
HOST_PART = "host"
ONLY_HOST = "_only"

LEASE_S = 10.0
"""So long somebody who said that it listens is spoken to."""
PERIOD_S = 1.0
"""How often a part says what changed."""
SILENT_S = 3.5
"""A part that was not heard for so long is away."""
MAX_UPDATE_BYTES = 900_000
"""Management brokers take messages of 1 MiB."""
MAX_ACCOUNT_BYTES = 32 << 20
SMALL_BYTES = 16 << 10
"""What is smaller is not packed."""
_PACKED = b"\x78"


def watch_subject(domain: str) -> str:
    """Where who listens says so: `Watch`."""
    return f"mangrove.{domain}.status.watch"


def said_subject(domain: str, part: str = "*") -> str:
    """Where a part says what changed: `StatusUpdate`."""
    return f"mangrove.{domain}.status.said.{part}"


def host_part(host: str) -> str:
    """The part that tells of a host's processes and brokers."""
    return f"{HOST_PART}_{host or ONLY_HOST}"


class Watch(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody listens."""

    whole: tuple[str, ...] = ()
    """Parts that it needs a whole account of; those who have begun to listen name all with `*`."""


class StatusUpdate(msgspec.Struct, frozen=True, array_like=True):
    """A part's account of itself, or what changed in it since the update before."""

    life: int
    """Of the process that speaks: numbers of another life begin anew."""
    number: int
    at: float
    """When it was made, in seconds since 1970 by the speaker's clock."""
    whole: bool
    change: Any
    """Of a whole account, the account itself."""
    omitted_bytes: int = 0
    """The account is so large that it cannot be sent; this is its size."""


_encoder = msgspec.msgpack.Encoder()
_updates = msgspec.msgpack.Decoder(StatusUpdate)
_watches = msgspec.json.Decoder(Watch)


def packed(update: StatusUpdate, instead: StatusUpdate | None = None) -> bytes:
    """An update as it is sent; of one that no broker would take what says the same `instead`, or else that it
    is too large."""
    payload = _encoder.encode(update)
    if len(payload) > SMALL_BYTES:
        size, payload = len(payload), zlib.compress(payload, 1)
        if len(payload) > MAX_UPDATE_BYTES or size > MAX_ACCOUNT_BYTES:
            if instead is not None:
                return packed(instead)
            empty = msgspec.structs.replace(update, change=None, omitted_bytes=size)
            return _encoder.encode(empty)
    return payload


def unpacked(payload: bytes) -> StatusUpdate:
    """What was sent; `ValueError` for anything else."""
    if payload[:1] == _PACKED:
        unpacking = zlib.decompressobj()
        try:
            payload = unpacking.decompress(payload, MAX_ACCOUNT_BYTES)
        except zlib.error as error:
            raise ValueError(str(error)) from None
        if not unpacking.eof:
            raise ValueError("it is larger than any account, or cut off")
    return _updates.decode(payload)


def read_watch(payload: bytes) -> Watch:
    """Who listens; `ValueError` for anything else."""
    return _watches.decode(payload)
