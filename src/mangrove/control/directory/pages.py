"""Pages of the directory, in order of topics, for `mangrove directory` and for clients."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator

from mangrove.control.advertising import Advertising
from mangrove.control.clients.placements import Placements
from mangrove.control.directory.directory import Directory
from mangrove.control.profile.audiences import class_name
from mangrove.control.profile.deadlines import contract_deadline_s
from mangrove.control.site import Site
from mangrove.control.steering.sayings import Saying
from mangrove.model.agents.directory import DirectoryAnswer, DirectoryQuestion, ServedTopic
from mangrove.model.agents.registration import ClientRole
from mangrove.model.subjects import subject_problem
from mangrove.model.topics import overlaps

MAX_TOPICS_A_PAGE = 1000


class DirectoryPages:
    """What is known of topics: where they are served, and who publishes them."""

    def __init__(
        self,
        site: Site,
        directory: Directory,
        placements: Placements,
        advertising: Advertising,
        saying: Callable[[str], Saying | None] = lambda _topic: None,
    ) -> None:
        """`saying` tells what was decided of where new subscribers of a topic are served."""
        self._saying = saying
        self._domain = site.domain
        self._rules = site.federation.topics
        self._brokers = frozenset(site.brokers)
        self._directory = directory
        self._placements = placements
        self._advertising = advertising

    def page(self, question: DirectoryQuestion, term: int) -> DirectoryAnswer:
        """The topics that a question is about, beginning after the last of the page before."""
        limit = max(1, min(question.limit, MAX_TOPICS_A_PAGE))
        pattern = question.topic or ">"
        if subject_problem(pattern, wildcards=True):
            return DirectoryAnswer(domain=self._domain, term=term, topics=())
        advertised = self._advertising.topics(pattern, after=question.after, limit=limit + 1)
        served = heapq.nsmallest(limit + 1, _wanted(self._directory, pattern, question.after))
        # What is served in other domains alone has no record here.
        asked_for = self._placements.topics(ClientRole.SUBSCRIBER)
        elsewhere = heapq.nsmallest(limit + 1, _wanted(asked_for, pattern, question.after))
        found = sorted({*advertised, *served, *elsewhere})
        return DirectoryAnswer(
            domain=self._domain,
            term=term,
            topics=tuple(map(self._served, found[:limit])),
            more=len(found) > limit,
        )

    def _served(self, topic: str) -> ServedTopic:
        subscribers = self._placements.count(ClientRole.SUBSCRIBER, topic)
        published_by = self._advertising.publishers_of(topic)
        deadline_s = contract_deadline_s(self._rules, topic)
        here = any(advertised.source == self._domain for advertised in published_by)
        audience = self._advertising.publisher_class(topic, local_subscribers=subscribers > 0)
        return ServedTopic(
            topic=topic,
            record=self._directory.get(topic),
            published_by=published_by,
            subscribers=subscribers,
            subscriber_class=class_name(self._advertising.subscriber_class(topic), publishers=False)
            if subscribers
            else "",
            publisher_class=class_name(audience, publishers=True) if here else "",
            deadline_ms=deadline_s * 1000 if math.isfinite(deadline_s) else None,
            elsewhere=self._elsewhere(topic),
            steering="" if (saying := self._saying(topic)) is None else saying.text,
            steered_by="" if saying is None else saying.event,
        )

    def _elsewhere(self, topic: str) -> dict[str, int]:
        """Brokers of other domains that serve subscriptions of this one."""
        brokers = self._placements.brokers(ClientRole.SUBSCRIBER, topic)
        return {broker: count for broker, count in brokers.items() if broker and broker not in self._brokers}


def _wanted(topics: Iterable[str], pattern: str, after: str) -> Iterator[str]:
    for topic in topics:
        if topic > after and (pattern == ">" or overlaps(topic, pattern)):
            yield topic
