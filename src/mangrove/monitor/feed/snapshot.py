"""What a feed knows at one moment: immutable, so that any number of pages may hold on to it."""

from __future__ import annotations

import msgspec

from mangrove.model.endpoints import Runtime
from mangrove.model.status import FederationStatus
from mangrove.model.topic_counts import TopicTotals


class Presence(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a domain is heard. What was last known of it stays in the snapshot while it is away."""

    connected: bool = False
    """Whether its stream is being heard."""
    seen_at: float | None = None
    """When it was heard last, in seconds since 1970; None: never."""
    problem: str = ""
    """Why it is not heard, for people."""
    lost: int = 0
    """Updates that did not arrive, or could not be read; a whole account was asked for instead."""


class TopicRate(msgspec.Struct, frozen=True, kw_only=True):
    """Messages of a topic in a second, at one gateway, over the last few seconds."""

    sent: float = 0.0
    delivered: float = 0.0
    dropped: float = 0.0


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The federation as it was last heard."""

    version: int = 0
    """Grows with every change; the same number is the same snapshot."""
    at: float = 0.0
    """Seconds since 1970."""
    runtime: Runtime | None = None
    """The federation file as it runs, and where; None: there is no federation (yet, or any more)."""
    status: FederationStatus | None = None
    """As `mangrove status` has it: all domains of the file in its order, also those never heard of."""
    presence: dict[str, Presence] = {}
    """By domain."""
    topics: dict[str, TopicTotals] = {}
    """What each domain's gateway carried, by domain."""
    rates: dict[str, dict[str, TopicRate]] = {}
    """By domain and topic; topics without messages in the last seconds are left out."""
    problem: str = ""
    """Why there is no federation to be seen, and what to do, for people."""
