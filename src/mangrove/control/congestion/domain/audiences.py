"""Who listens to a subject, and how often each broker gives its messages out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from mangrove.control.clients.placements import Placements
from mangrove.control.profile.plain_clients import PlainLoad
from mangrove.control.site import Site
from mangrove.model.agents.registration import ClientRole
from mangrove.model.patterns.cover import has_wildcard
from mangrove.model.patterns.trie import SubjectTrie


class Audience(NamedTuple):
    """Of one subject."""

    subscribers: int
    copies: dict[str, float]


class Audiences:
    """A picture of all subscriptions of a domain at one time; subjects are asked for one by one."""

    def __init__(
        self,
        site: Site,
        placements: Placements,
        plain: Callable[[str], Iterable[PlainLoad]],
        wanted_elsewhere: Callable[[str], bool],
        remote_subscribers: Callable[[str], int],
        publish_at: Callable[[str], str],
    ) -> None:
        """`remote_subscribers`: as many as other domains have told of."""
        self._site = site
        self._wanted_elsewhere = wanted_elsewhere
        self._remote_subscribers = remote_subscribers
        self._publish_at = publish_at
        self._at: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        """By pattern and broker of this domain."""
        for pattern in placements.topics(ClientRole.SUBSCRIBER):
            for broker in placements.brokers(ClientRole.SUBSCRIBER, pattern):
                if site.has(broker):
                    members = placements.members(ClientRole.SUBSCRIBER, pattern, broker)
                    queues = {each.wish.queue for each in members if each.wish.queue}
                    self._at[pattern][broker] += len(queues) + sum(not each.wish.queue for each in members)
        for broker in site.brokers:
            for load in plain(broker):
                for pattern in load.patterns:
                    self._at[pattern][broker] += 1
        self._wide: SubjectTrie[str] = SubjectTrie()
        for pattern in self._at:
            if has_wildcard(pattern):
                self._wide.add(pattern, pattern)

    def of(self, subject: str, *, home: bool = True) -> Audience:
        """The audience of a subject; only if it is published at `home` do other domains get it from here."""
        at: dict[str, int] = defaultdict(int)
        for pattern in (subject, *(self._wide.match(subject) if len(self._wide) else ())):
            for broker, count in self._at.get(pattern, {}).items():
                at[broker] += count
        elsewhere = home and self._wanted_elsewhere(subject)
        remote = max(self._remote_subscribers(subject), 1) if elsewhere else 0
        subscribers = sum(at.values()) + remote
        return Audience(subscribers, self._copies(subject, at, elsewhere))

    def _copies(self, subject: str, at: Mapping[str, int], elsewhere: bool) -> dict[str, float]:
        head = self._site.acting_head
        place = self._publish_at(subject)
        if place and place != head and not elsewhere and set(at) <= {place}:
            return {place: float(at.get(place, 0))}
        copies = {broker: float(count) for broker, count in at.items() if broker != head}
        copies[head] = len(copies) + float(at.get(head, 0)) + (1.0 if elsewhere else 0.0)
        return copies
