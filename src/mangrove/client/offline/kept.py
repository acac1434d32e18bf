"""A message that waits for a broker, and why one waits no longer without having been sent."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import msgspec

MESSAGE_BYTES = 200
"""What a message takes beside its bytes, about."""


class Kept(msgspec.Struct, frozen=True, gc=False):
    """A message as it was published: id and time are in its head, or are the two numbers of a usual one."""

    number: int
    """Rises in the order of publishing."""
    at_ns: int
    """When it was published, since 1970."""
    subject: str
    payload: bytes
    head: bytes = b""
    reply: str = ""
    first: int = 0
    """Without a head, the count in the usual one; its time is `at_ns`."""
    again: bool = False
    """Whether it was sent before, to a broker that may have died with it."""

    @property
    def size_bytes(self) -> int:
        """What it takes of the room."""
        return len(self.payload) + len(self.head) + len(self.subject) + len(self.reply) + MESSAGE_BYTES


class Reason(StrEnum):
    """Why a message was dropped that waited."""

    TOO_OLD = "too old"
    LATE = "late"
    """Its deadline is over, and its contract says `late: drop`."""
    TOO_MUCH = "too much"
    NOT_ALLOWED = "not allowed"
    TOO_LARGE = "too large"
    NOT_CARRIED = "not carried"
    """The broker that is there is of a kind that cannot carry it: AMQP's subjects are shorter."""
    UNWANTED = "unwanted"
    """Nobody in the federation subscribes to it any more."""
    CLOSED = "closed"
    """The connection was closed before a broker was back, and the message is not on disk: none is to be
    there, or the disk did not take it."""


class Dropped(NamedTuple):
    """A message that will not be sent."""

    kept: Kept
    reason: Reason
