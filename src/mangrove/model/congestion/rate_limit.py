"""How much a publisher may say, and why not more."""

from __future__ import annotations

import math
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


def is_rate(value: float | None) -> bool:
    """Whether a rate that came from outside can be one."""
    return value is None or (math.isfinite(value) and value >= 0)


def strictest(first: RateLimit | None, second: RateLimit | None) -> RateLimit | None:
    """What satisfies both; the cause is that of the lower rate of messages, or else of bytes."""
    if first is None or second is None:
        return first or second
    messages = second if _lower(second.msg_s, first.msg_s) else first
    size = second if _lower(second.bytes_s, first.bytes_s) else first
    if messages.msg_s is None or messages is size:
        return size if messages.msg_s is None and size.bytes_s is not None else messages
    if size.bytes_s is None:
        return messages
    reason = "; ".join(each for each in (messages.reason, size.reason) if each)
    return RateLimit(msg_s=messages.msg_s, bytes_s=size.bytes_s, cause=messages.cause, reason=reason)


def _lower(one: float | None, other: float | None) -> bool:
    return one is not None and (other is None or one < other)


class Limits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the federation file sets for each client (`limits.client`)."""

    rate_msg_s: float | None = None
    rate_bytes_s: float | None = None

    def __bool__(self) -> bool:
        return self.rate_msg_s is not None or self.rate_bytes_s is not None
