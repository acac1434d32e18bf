"""What plans need to know of their domain, and may do to it; the brain gives it, or a test."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from mangrove.control.broker_watch import BrokerWatch
from mangrove.control.clients.placements import Served, WishId
from mangrove.control.clients.registry import Clients
from mangrove.control.directory.directory import Directory
from mangrove.control.domain_view import DomainView
from mangrove.control.plans.judgement import TopicNow
from mangrove.control.sessions.coordinator import Coordinator
from mangrove.control.site import Site
from mangrove.model.agents.registration import Assignment, ClientRole
from mangrove.model.events.event_log import EventId


def movable(served: Served) -> bool:
    """Whether a wish can be told to move: queue groups stay together."""
    return served.wish.movable and not served.wish.queue


class PlanSurroundings(Protocol):
    """A domain as plans see it."""

    def topics(self) -> Iterable[TopicNow]:
        """All that somebody here subscribes to."""

    def members(self, topic: str, to: str) -> Iterable[WishId]:
        """Clients of a topic that are not at a broker and can be told to go there."""

    def in_session(self, topic: str) -> bool:
        """Whether an offload session moves a topic at this moment."""

    def barred(self, topic: str, now: float) -> frozenset[str]:
        """Brokers that a topic left in an offload session a moment ago."""

    def down(self, now: float) -> frozenset[str]:
        """Brokers that are not to be used."""

    def assignment(self, topic: str, broker: str) -> Assignment:
        """Where the clients of a topic go."""

    def follow(self, topic: str, now: float, decision: EventId | None) -> None:
        """A topic has, or no longer has, a target: the directory must say so."""

    def served(self, topic: str) -> bool:
        """Whether a broker of this domain serves a topic."""

    def known(self, now: float) -> bool:
        """Whether all clients of an earlier leader have had time to register."""

    def paused(self) -> bool:
        """Whether an operator wants nothing to be decided."""


class DomainPlans:
    """Implements `PlanSurroundings` with what the agent knows."""

    def __init__(
        self,
        site: Site,
        watch: BrokerWatch,
        clients: Clients,
        directory: Directory,
        view: DomainView,
        sessions: Callable[[], Coordinator],
        *,
        known: Callable[[float], bool],
        paused: Callable[[], bool],
    ) -> None:
        self._site = site
        self._watch = watch
        self._clients = clients
        self._directory = directory
        self._view = view
        self._sessions = sessions
        self._known = known
        self._paused = paused

    def topics(self) -> Iterator[TopicNow]:
        """All that somebody here subscribes to."""
        placements = self._clients.placements
        for topic in list(placements.topics(ClientRole.SUBSCRIBER)):
            can: dict[str, int] = {}
            cannot: dict[str, int] = {}
            for broker in placements.brokers(ClientRole.SUBSCRIBER, topic):
                if not self._site.has(broker):
                    continue
                for served in placements.members(ClientRole.SUBSCRIBER, topic, broker):
                    counts = can if movable(served) else cannot
                    counts[broker] = counts.get(broker, 0) + 1
            record = self._directory.get(topic)
            yield TopicNow(topic, can, cannot, "" if record is None else record.mirror)

    def members(self, topic: str, to: str) -> list[WishId]:
        """Clients of a topic that are not at a broker and can be told to go there."""
        placements = self._clients.placements
        return [
            served.id
            for broker in placements.brokers(ClientRole.SUBSCRIBER, topic)
            if broker != to and self._site.has(broker)
            for served in placements.members(ClientRole.SUBSCRIBER, topic, broker)
            if movable(served)
        ]

    def in_session(self, topic: str) -> bool:
        """Whether an offload session moves a topic at this moment."""
        return self._sessions().moves_topic(topic)

    def barred(self, topic: str, now: float) -> frozenset[str]:
        """Brokers that a topic left in an offload session a moment ago."""
        return self._sessions().barred(topic, now)

    def down(self, now: float) -> frozenset[str]:
        """Brokers that do not answer, and those that were found dead."""
        unreachable = (name for name, load in self._watch.loads(now).items() if not load.reachable)
        return self._site.down.union(unreachable)

    def assignment(self, topic: str, broker: str) -> Assignment:
        """Where the clients of a topic go."""
        return self._view.assignment(topic, broker)

    def follow(self, topic: str, now: float, decision: EventId | None) -> None:
        """A topic has, or no longer has, a target: the directory must say so."""
        self._view.follow(topic, now, decision)

    def served(self, topic: str) -> bool:
        """Whether a broker of this domain serves a topic."""
        return bool(self._directory.edges(topic))

    def known(self, now: float) -> bool:
        """Whether all clients of an earlier leader have had time to register."""
        return self._known(now)

    def paused(self) -> bool:
        """Whether an operator wants nothing to be decided."""
        return self._paused()
