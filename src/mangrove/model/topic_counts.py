"""What a gateway carried and dropped, topic by topic, since a point that the reader names.

A reader asks on the management broker, with the cursor of the last answer that it has booked (none at first),
and gets what was counted since. So an answer that was lost is asked for again, several readers do not disturb
each other, and no topic is ever booked with more than what happened between two answers. Everything that
cannot be told topic by topic is in `other`: the sum of a tally is always exact.
"""

from __future__ import annotations

import msgspec


class CountCursor(msgspec.Struct, frozen=True, kw_only=True):
    """A point in the counts of a gateway process, which makes it; readers give it back as it is.

    The default is its start.
    """

    epoch: int
    sequence: int = 0
    uptime_s: float = 0.0
    sent: int = 0
    delivered: int = 0
    dropped: int = 0
    malformed_bodies: int = 0


class TopicCountsRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Asks for what was counted since `cursor`; without one, for a cursor to begin with."""

    cursor: CountCursor | None = None


class TopicTally(msgspec.Struct, frozen=True, kw_only=True):
    """Messages of a span of time: by topic, and those that no topic is told for."""

    topics: dict[str, int] = {}
    requests: int = 0
    """Requests and replies: their subjects are used once."""
    other: int = 0
    """Messages of topics beyond the bound, or of a time so long ago that only its sum is known."""

    @property
    def total(self) -> int:
        """All messages."""
        return sum(self.topics.values()) + self.requests + self.other


class TopicCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What a gateway counted in the last `span_s` seconds."""

    domain: str
    cursor: CountCursor
    """For the next request."""
    span_s: float
    """From the reader's cursor, or from the start of this gateway process if that is later, until now."""
    restarted: bool = False
    """The cursor is of an earlier gateway process: what that one counted afterwards is not known."""
    sent: TopicTally = TopicTally()
    delivered: TopicTally = TopicTally()
    dropped: TopicTally = TopicTally()
    malformed_bodies: int = 0
    """Bodies of frames that were refused, at least in part; how many messages they held is not known."""


class TopicTotals(msgspec.Struct, frozen=True, kw_only=True):
    """What a gateway process has counted since it started; of topics, the busiest."""

    domain: str
    epoch: int
    uptime_s: float
    sent: TopicTally = TopicTally()
    delivered: TopicTally = TopicTally()
    dropped: TopicTally = TopicTally()


def gateway_topics_subject(domain: str) -> str:
    """Where a gateway answers on its domain's management broker."""
    return f"mangrove.{domain}.gateway.topics"
