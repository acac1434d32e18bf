"""What a gateway and a worker say to each other: frames of a length and MessagePack, over a socket pair."""

from __future__ import annotations

from enum import IntEnum, StrEnum

import msgspec

from mangrove.model.mediation.transform import Transform

LENGTH_BYTES = 4
MAX_FRAME_BYTES = 64 << 20
COUNT_BYTES = 8
"""Of the counter in shared memory: how many messages a worker is done with. A gateway reads it to know which
message a worker hangs in, or died of."""
LEAVES = 1 << 63
"""In the counter of a worker that ends by itself, between two messages: none is to blame."""


class Failure(StrEnum):
    """Why a message could not be transformed; what it says is counted."""

    RAISED = "failed"
    NO_MEMORY = "needs more memory than it may have"
    TOO_LARGE = "gives more than a message may have"
    TOO_LONG = "takes longer than it may"
    DIED = "ended its process"
    NOT_STARTED = "cannot be started"


class Outcome(IntEnum):
    """What became of a message."""

    TRANSFORMED = 0
    LEFT_OUT = 1
    FAILED = 2


class WorkerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The first frame to a worker."""

    transform: Transform
    max_bytes: int
    """Of one result."""


class Ready(msgspec.Struct, frozen=True):
    """The first frame from a worker; with a problem, it ends."""

    problem: str = ""


class Given(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A message for a worker."""

    subject: str
    head: bytes
    payload: bytes


class Result(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a worker made of a message."""

    outcome: Outcome
    payload: bytes = b""
    failure: Failure | None = None
    detail: str = ""


def framed(body: bytes) -> bytes:
    """A frame with its length."""
    return len(body).to_bytes(LENGTH_BYTES, "big") + body
