"""Counts by topic in bounded memory: what does not fit is still counted, only not told apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec

from mangrove.model.topic_counts import TopicTally

MAX_TOPICS = 100_000
ENTRY_BYTES = 16
"""What a topic takes in an answer besides its name."""


class Tally:
    """Messages by topic, requests and replies, and the rest. Their sum never loses a message.

    When there are too many topics, those with the smallest counts go into the rest, so that a busy topic is
    told apart however many others came before it.
    """

    __slots__ = ("_max_topics", "other", "requests", "topics")

    def __init__(self, max_topics: int = MAX_TOPICS) -> None:
        self._max_topics = max_topics
        self.topics: Counter[str] = Counter()
        self.requests = 0
        self.other = 0

    def __len__(self) -> int:
        return len(self.topics)

    @property
    def total(self) -> int:
        """All messages."""
        return self.topics.total() + self.requests + self.other

    def add(self, topic: str, count: int) -> None:
        """Count messages of a topic."""
        self.topics[topic] += count
        if len(self.topics) > self._max_topics:
            self._make_room()

    def merge(self, more: Tally) -> None:
        """Add another tally to this one."""
        self.topics.update(more.topics)
        self.requests += more.requests
        self.other += more.other
        if len(self.topics) > self._max_topics:
            self._make_room()

    def _make_room(self) -> None:
        """Tell half as many apart; counted in bulk, so that the cost for each topic is small."""
        kept = Counter(dict(self.topics.most_common(self._max_topics // 2)))
        self.other += self.topics.total() - kept.total()
        self.topics = kept

    def report(self, total: int, budget_bytes: int) -> TopicTally:
        """The tally of a span in which `total` messages were counted, in an answer of limited size.

        If not all can be named, the busy ones are. What this tally does not hold, or the answer cannot, is
        in `other`.
        """
        topics = dict(self._fitting(budget_bytes))
        return TopicTally(
            topics=topics, requests=self.requests, other=total - self.requests - sum(topics.values())
        )

    def _fitting(self, budget_bytes: int) -> Iterator[tuple[str, int]]:
        # What is escaped is escaped letter by letter: so large all topics are, found in one go.
        joined = "".join(self.topics)
        told_bytes = len(msgspec.json.encode(joined)) - 2
        if told_bytes + len(self.topics) * (ENTRY_BYTES + 2) <= budget_bytes:
            yield from self.topics.items()
            return
        unescaped = told_bytes == len(joined)
        # No more than could fit are put in order: with very many topics that is a small part.
        for topic, count in self.topics.most_common(budget_bytes // ENTRY_BYTES):
            needed_bytes = len(topic) + 2 if unescaped else len(msgspec.json.encode(topic))
            budget_bytes -= needed_bytes + ENTRY_BYTES
            if budget_bytes < 0:
                return
            yield topic, count
