"""How much a publisher may say, and why not more."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class LimitCause(StrEnum):
    """Why a rate is limited."""

    CONTRACT = "contract"
    """The topic's contract has a limit, shared by its publishers."""
    CLIENT = "client"
    """Every client has a limit for all that it publishes."""
    CONGESTION = "congestion"
    """Capacity is short, and others are more useful."""


class RateLimit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Messages and bytes (of payload) in a second; None is no limit, 0 is silence."""

    msg_s: float | None = None
    bytes_s: float | None = None
    cause: LimitCause = LimitCause.CONTRACT
    reason: str = ""
    """For people."""


class Limits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the federation file sets for each client (`limits.client`)."""

    rate_msg_s: float | None = None
    rate_bytes_s: float | None = None

    def __bool__(self) -> bool:
        return self.rate_msg_s is not None or self.rate_bytes_s is not None
