"""Counts of a few topics and of all others together, such that every one of them only grows.

A topic is counted by itself from the moment that it is told apart; what it had before stays among the others.
When it gives its place to a busier one, its series ends, and what it has from then on is among the others.
"""

from __future__ import annotations

from mangrove.model.metrics.families import OTHER, Families
from mangrove.model.topic_counts import TopicTally, TopicTotals

MAX_TOPICS = 50
"""Told apart in each domain, of each kind of count."""
BUSIER = 4
"""Who takes the place of another has so many times as many messages."""
MAX_CHANGES = 5
"""Places that change at a look."""


class ToldApart:
    """One kind of count at one gateway."""

    def __init__(self, max_topics: int = MAX_TOPICS) -> None:
        self._max_topics = max_topics
        self._bases: dict[str, int] = {}
        """What each topic had when it was told apart."""
        self._last: dict[str, int] = {}
        self._ended = 0
        """What topics had by themselves that have given up their places."""

    def counts(self, tally: TopicTally) -> dict[str, int]:
        """Counts by topic, with `OTHER` for the rest."""
        present = tally.topics
        # A topic that is no longer named is as good as its last count.
        chosen = {topic: max(present.get(topic, 0), self._last.get(topic, 0)) for topic in self._bases}
        self._choose(present, chosen)
        self._last = {**present, **chosen}
        found = {topic: count - self._bases[topic] for topic, count in chosen.items()}
        found[OTHER] = tally.total - sum(found.values()) - self._ended
        return found

    def _choose(self, present: dict[str, int], chosen: dict[str, int]) -> None:
        """Give free places to the busiest, and a few places of quiet topics to much busier ones."""
        grown = {topic: count - self._last.get(topic, 0) for topic, count in present.items()}
        rest = sorted((topic for topic in present if topic not in chosen), key=lambda t: (-grown[t], t))
        quiet = sorted(chosen, key=lambda topic: (grown.get(topic, 0), topic))
        free = self._max_topics - len(chosen)
        for topic in rest[:free]:
            self._bases[topic] = chosen[topic] = present[topic]
        for topic, out in zip(rest[free : free + MAX_CHANGES], quiet, strict=False):
            if grown[topic] <= BUSIER * grown.get(out, 0):
                break
            self._ended += chosen.pop(out) - self._bases.pop(out)
            self._bases[topic] = chosen[topic] = present[topic]


class TopicMetrics:
    """All counts by topic of one gateway; they begin anew with its process."""

    def __init__(self, max_topics: int = MAX_TOPICS) -> None:
        self._max_topics = max_topics
        self._epoch = 0
        self._kinds: dict[str, ToldApart] = {}

    def put(self, families: Families, totals: TopicTotals) -> None:
        """Sent, delivered and dropped messages."""
        if totals.epoch != self._epoch:
            self._epoch = totals.epoch
            self._kinds = {}
        for kind in ("sent", "delivered", "dropped"):
            apart = self._kinds.setdefault(kind, ToldApart(self._max_topics))
            for topic, count in apart.counts(getattr(totals, kind)).items():
                families.put(f"topic_{kind}_total", count, totals.domain, topic)
