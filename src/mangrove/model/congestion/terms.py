"""What the SDK must know of contracts: told to clients with the directions, in the order of the file."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Slow(StrEnum):
    """What happens to messages for a subscriber that cannot keep up."""

    DROP_OLDEST = "drop-oldest"
    DROP_LEAST_USEFUL = "drop-least-useful"
    LATEST_ONLY = "latest-only"
    DISCONNECT = "disconnect"


class TopicTerms(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of a contract that clients keep themselves; the first that matches a subject governs it."""

    match: str
    rate_msg_s: float | None = None
    rate_bytes_s: float | None = None
    slow: Slow = Slow.DROP_OLDEST
    always_send: bool = False
    mirror: str = "none"
    """A value of `Mirror`."""
    deadline_ms: float | None = None
    late: str = "deliver"
    """A value of `Late`."""


MAX_TERMS = 2_000
"""So many contracts are told; of topics under later ones the gateway alone knows the limits."""
