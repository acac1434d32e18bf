"""Topics that are published in this domain: how that is known, and for how long it is believed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import takewhile

from mangrove.control.advertisements.topic_index import TopicIndex

COUNT_LEASE_S = 60.0
"""Clients without the SDK are known by the gateway's counts alone: without one for so long, they are gone."""
PRESUMED_S = 60.0
"""After its start an agent leaves standing what its neighbours say it published before, for so long."""
MAX_TOPICS_AT_HOME = 200_000
"""Published topics that never leave the domain."""


class LocalTopics:
    """Topics by what tells that they are published: SDK clients, the gateway's counts, or what was before."""

    def __init__(self, now: float) -> None:
        self._presume_until = now + PRESUMED_S
        self._publishers: dict[str, int] = {}
        self._counted: dict[str, float] = {}
        """Until when a count is believed, in order."""
        self._presumed: set[str] = set()
        self._at_home: dict[str, int] = {}
        """Publishers of topics that never leave the domain."""
        self.home_index = TopicIndex()

    def __contains__(self, topic: str) -> bool:
        return topic in self._publishers or topic in self._counted or topic in self._presumed

    def __iter__(self) -> Iterator[str]:
        yield from self._publishers.keys() | self._counted.keys() | self._presumed

    def set_publishers(self, topic: str, publishers: int) -> None:
        """So many SDK clients publish it."""
        self._presumed.discard(topic)
        if publishers > 0:
            self._publishers[topic] = publishers
        else:
            self._publishers.pop(topic, None)

    def set_publishers_at_home(self, topic: str, publishers: int) -> bool:
        """So many SDK clients publish a topic that never leaves the domain; False if it is one too many."""
        if publishers <= 0:
            if self._at_home.pop(topic, 0):
                self.home_index.remove(topic)
        elif topic in self._at_home:
            self._at_home[topic] = publishers
        elif len(self._at_home) >= MAX_TOPICS_AT_HOME:
            return False
        else:
            self._at_home[topic] = publishers
            self.home_index.add(topic)
        return True

    def counted(self, topics: Iterable[str], now: float) -> None:
        """These have been carried to other domains."""
        for topic in topics:
            self._presumed.discard(topic)
            self._counted.pop(topic, None)
            self._counted[topic] = now + COUNT_LEASE_S

    def presume(self, topic: str, now: float) -> bool:
        """Whether a topic that was published before this agent started is taken to be so still."""
        if now >= self._presume_until:
            return False
        self._presumed.add(topic)
        return True

    def take_expired(self, now: float) -> list[str]:
        """Topics of which a lease has run out; they may be published all the same, known another way."""
        expired = [topic for topic, _ in takewhile(lambda each: each[1] <= now, self._counted.items())]
        for topic in expired:
            del self._counted[topic]
        if self._presumed and now >= self._presume_until:
            expired += self._presumed
            self._presumed.clear()
        return expired

    def due(self) -> float:
        """When the next lease runs out."""
        counted = next(iter(self._counted.values()), math.inf)
        return min(counted, self._presume_until) if self._presumed else counted

    def publishers(self, topic: str) -> int:
        """How many SDK clients publish it."""
        return self._publishers.get(topic, 0) or self._at_home.get(topic, 0)

    def wanted_elsewhere(self, topic: str) -> bool:
        """Whether it was carried to other domains lately."""
        return topic in self._counted

    def known_by(self, topic: str) -> str:
        """What tells that it is published."""
        if topic in self._publishers:
            return "sdk"
        return "gateway" if topic in self._counted else "neighbours"
