"""Who subscribes to what at a broker, and how much they are handed, as far as looking at it is affordable.

A look costs the broker and its reader some five microseconds for each subscription: two at nats-server, the
rest here, with what follows for the tap. So a broker with many of them is looked at less often, and what is
kept of a look is bounded.
"""

from __future__ import annotations

from collections import Counter
from heapq import nlargest
from math import ceil

import msgspec

from mangrove.broker.nats.monitoring import MAX_PAGE_BYTES
from mangrove.broker.nats.subscriptions_page import MAX_DETAILED, Look, look_at_subscriptions
from mangrove.model.endpoints import BrokerEndpoints
from mangrove.model.patterns.trie import SubjectTrie

MAX_PATTERNS = 10_000
"""Patterns kept of a look: the busiest, then those with the most subscribers."""
COST_S = 5e-6
MAX_CPU_SHARE = 0.01
MAX_INTERVAL_S = 60
# Looks at every second that are no further apart than this tell what happened in one, or a little late.
SECOND_AT_MOST_S = 2.5


def interval_s(subscriptions: int) -> float:
    """How long to wait between two looks at so many subscriptions: whole seconds."""
    return float(min(max(1, ceil(subscriptions * COST_S / MAX_CPU_SHARE)), MAX_INTERVAL_S))


class Subscriptions(msgspec.Struct):
    """Subscriptions at a broker: how many have each pattern, and what their subscribers are handed."""

    count: Counter[str] = msgspec.field(default_factory=Counter)
    handed_per_s: dict[str, float] = msgspec.field(default_factory=dict)
    """Messages a second, summed up over the subscriptions of a pattern."""
    plain: set[str] = msgspec.field(default_factory=set)
    """Patterns that somebody wants who is in no queue group: more such subscribers change nothing."""
    left_out: int = 0
    """Subscriptions that are not in `count`."""
    _wildcards: SubjectTrie[str] = msgspec.field(default_factory=SubjectTrie)

    def __post_init__(self) -> None:
        for pattern in self.count:
            if "*" in pattern or ">" in pattern:
                self._wildcards.add(pattern, pattern)

    def matching(self, topic: str) -> set[str]:
        """Patterns that match a topic."""
        found = self._wildcards.match(topic)
        if topic in self.count:
            found.add(topic)
        return found


class SubscriptionWatch:
    """Looks at the subscriptions of one broker again and again, as often as is affordable."""

    def __init__(
        self,
        broker: BrokerEndpoints,
        *,
        max_page_bytes: int = MAX_PAGE_BYTES,
        max_patterns: int = MAX_PATTERNS,
        max_detailed: int = MAX_DETAILED,
    ) -> None:
        self.broker = broker
        self.looks = 0
        """How often the broker has answered: what it said is new when this is."""
        self.too_large = False
        """Whether the last look had to do without a part of the page."""
        self.found: Subscriptions | None = None
        """What the last look found; None while the broker is away."""
        self._max_page_bytes = max_page_bytes
        self._max_patterns = max_patterns
        self._max_detailed = max_detailed
        self._last: Look | None = None
        self._looked_at = 0.0
        self._interval_s = 1.0
        self._due = 0.0

    async def look(self, now: float) -> None:
        """Ask the broker, if that is due."""
        url = self.broker.monitor_url
        if url is None or (self.found is not None and now < self._due):
            return
        look = await look_at_subscriptions(
            url, self._last, max_bytes=self._max_page_bytes, max_detailed=self._max_detailed
        )
        if look is None:
            self.found = None
            return
        elapsed_s = now - self._looked_at
        one_second = self._interval_s == 1.0 and elapsed_s < SECOND_AT_MOST_S
        self.found = self._kept(look, 1.0 if one_second else elapsed_s)
        self.too_large = look.too_large
        self.looks += 1
        self._interval_s = interval_s(look.listed)
        self._due = now + self._interval_s - 0.5
        self._looked_at = now
        # Its totals are needed for the next look, its patterns are not.
        self._last = msgspec.structs.replace(look, count=Counter(), plain=set(), handed=Counter())

    def _kept(self, look: Look, seconds: float) -> Subscriptions:
        kept = look.count
        if len(kept) > self._max_patterns:
            busiest = nlargest(self._max_patterns, kept, key=lambda p: (look.handed[p], kept[p], p))
            kept = Counter({pattern: look.count[pattern] for pattern in busiest})
        return Subscriptions(
            count=kept,
            handed_per_s={pattern: n / seconds for pattern, n in look.handed.items() if pattern in kept},
            plain=look.plain & kept.keys(),
            left_out=look.skipped + look.count.total() - kept.total(),
        )
