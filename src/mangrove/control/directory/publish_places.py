"""Publishers by audience (RQMOM §4.3.1): a topic that one edge alone has subscribers of is published there.

Wherever a topic is published, all its subscribers get it: brokers pass on what others want. The place decides
how many copies the head sends. So a change may come late, and does: the audience must have been the same for
a while, and a topic that was moved stays for a while.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable

from mangrove.control.clients.placements import Placements
from mangrove.control.directory.directory import Directory
from mangrove.control.events.happenings import PublishingMoved
from mangrove.control.site import Site
from mangrove.model.agents.registration import ClientRole
from mangrove.model.events.event_log import EventLog
from mangrove.model.patterns.trie import SubjectTrie

STEADY_S = 10.0
"""The audience of a topic must have been the same for so long."""
STAY_S = 30.0
"""Between two moves of a topic's publishers."""
LOOK_S = 1.0
MAX_LOOKED_AT = 1000
"""Topics that are looked at in one go; more wait for the next."""


class PublishPlaces:
    """Where the topics of this domain's publishers are published."""

    def __init__(
        self,
        site: Site,
        placements: Placements,
        directory: Directory,
        log: EventLog,
        wanted_elsewhere: Callable[[str], bool],
        clock_shift_s: float,
    ) -> None:
        self._site = site
        self._placements = placements
        self._directory = directory
        self._log = log
        self._wanted_elsewhere = wanted_elsewhere
        self._clock_shift_s = clock_shift_s
        self._patterns: SubjectTrie[str] = SubjectTrie()
        self._queue: deque[str] = deque()
        self._queued: set[str] = set()
        self._place: dict[str, tuple[str, float]] = {}
        """Topic → the place that its audience asks for, and since when."""
        self._moved_at: dict[str, float] = {}
        self._look_at = math.inf

    def subscribed(self, pattern: str) -> None:
        """Somebody here wants a pattern, or nobody does any more."""
        if self._placements.count(ClientRole.SUBSCRIBER, pattern):
            self._patterns.add(pattern, pattern)
        else:
            self._patterns.remove(pattern, pattern)

    def published(self, topics: Iterable[str], now: float) -> None:
        """Topics that somebody here publishes, or has stopped to."""
        for topic in topics:
            if topic not in self._queued:
                self._queued.add(topic)
                self._queue.append(topic)
        if self._queue and self._look_at == math.inf:
            self._look_at = now + LOOK_S

    def timer(self) -> float:
        """When topics are looked at."""
        return self._look_at

    def handle_timer(self, now: float) -> None:
        """Look at some topics; all have their turn, again and again."""
        if now < self._look_at:
            return
        for _ in range(min(MAX_LOOKED_AT, len(self._queue))):
            topic = self._queue.popleft()
            if self._look(topic, now):
                self._queue.append(topic)
            else:
                self._queued.discard(topic)
        self._look_at = now + LOOK_S if self._queue else math.inf

    def _look(self, topic: str, now: float) -> bool:
        """Decide about one topic; False when nobody publishes it any more."""
        published = self._placements.count(ClientRole.PUBLISHER, topic) > 0
        place, why = self._best_place(topic) if published else ("", "nobody publishes it any more")
        before = self._place.get(topic)
        if before is None or before[0] != place:
            self._place[topic] = before = (place, now)
        if place != self._directory.publish_at(topic):
            steady = now - before[1] >= STEADY_S
            rested = now - self._moved_at.get(topic, -math.inf) >= STAY_S
            if not published or (steady and rested):
                self._move(topic, place, why, now)
        if not published:
            self._place.pop(topic, None)
            self._moved_at.pop(topic, None)
        return published

    def _best_place(self, topic: str) -> tuple[str, str]:
        """The edge of all its subscribers, or nothing for the head; and why."""
        if self._wanted_elsewhere(topic):
            return "", "other domains want it"
        edges: set[str] = set()
        for pattern in self._patterns.match(topic):
            edges.update(self._placements.brokers(ClientRole.SUBSCRIBER, pattern))
        if len(edges) == 1 and (edge := edges.pop()) in self._site.edges and edge not in self._site.down:
            return edge, "all its subscribers are there"
        return "", f"its subscribers are at {len(edges)} brokers" if edges else "nobody subscribes to it"

    def _move(self, topic: str, place: str, why: str, now: float) -> None:
        event = self._log.note(PublishingMoved(topic=topic, at=place or self._site.acting_head, why=why), now)
        self._directory.decide(topic, publish_at=place, decision=event, since=now + self._clock_shift_s)
        self._moved_at[topic] = now
