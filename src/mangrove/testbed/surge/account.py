"""What became of the messages of a surge: each is due once, in its publisher's order, at every subscriber."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import msgspec

STAMP = struct.Struct(">IQQ")
"""Topic number, sequence from 1, and when it was sent in nanoseconds of the machine's monotonic clock."""


@dataclass(slots=True)
class Arrivals:
    """What one subscriber got of one topic. Sequences are remembered exactly: those missing, and the last."""

    next_due: int = 1
    missing: set[int] = field(default_factory=set)
    delivered: int = 0
    duplicated: int = 0
    reordered: int = 0
    longest_ms: float = 0.0

    def arrived(self, sequence: int, latency_ms: float) -> None:
        """Book one arrival."""
        if sequence >= self.next_due:
            self.missing.update(range(self.next_due, sequence))
            self.next_due = sequence + 1
        elif sequence in self.missing:
            self.missing.discard(sequence)
            self.reordered += 1
        else:
            self.duplicated += 1
            return
        self.delivered += 1
        self.longest_ms = max(self.longest_ms, latency_ms)

    def lost(self, sent: int) -> int:
        """Messages of `sent` that did not arrive."""
        return len(self.missing) + max(0, sent + 1 - self.next_due)


class SubscriberAccount(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one subscriber."""

    topic: str
    delivered: int
    lost: int
    duplicated: int
    reordered: int
    longest_ms: float
    """The longest time from publishing to the application."""
    deadline_ms: float
    moves: int = 0
    """How often its subscription was moved."""
    dropped: int = 0
    """Messages that its own process did not keep up with."""


class SurgeAccount(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of all subscribers."""

    sent: int
    expected: int
    delivered: int
    lost: int
    duplicated: int
    reordered: int
    moved: int
    """Subscriptions that were moved at least once."""
    late_moved: int
    """Moved subscribers one of whose messages took longer than their requirement."""
    longest_moved_ms: float
    longest_stayed_ms: float
    dropped: int

    @property
    def exact(self) -> bool:
        """Whether every message arrived once and in order."""
        return not (self.lost or self.duplicated or self.reordered)


def summed_up(sent: dict[str, int], subscribers: list[SubscriberAccount]) -> SurgeAccount:
    """The account of a whole surge."""
    moved = [each for each in subscribers if each.moves]
    stayed = [each for each in subscribers if not each.moves]
    return SurgeAccount(
        sent=sum(sent.values()),
        expected=sum(sent[each.topic] for each in subscribers),
        delivered=sum(each.delivered for each in subscribers),
        lost=sum(each.lost for each in subscribers),
        duplicated=sum(each.duplicated for each in subscribers),
        reordered=sum(each.reordered for each in subscribers),
        moved=len(moved),
        late_moved=sum(each.longest_ms > each.deadline_ms for each in moved),
        longest_moved_ms=max((each.longest_ms for each in moved), default=0.0),
        longest_stayed_ms=max((each.longest_ms for each in stayed), default=0.0),
        dropped=sum(each.dropped for each in subscribers),
    )
