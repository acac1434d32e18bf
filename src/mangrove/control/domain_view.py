"""A domain as its sessions see it, put together from what the agent knows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from mangrove.control.advertising import Advertising
from mangrove.control.broker_watch import BrokerWatch
from mangrove.control.clients.placements import WishId
from mangrove.control.clients.registry import Clients
from mangrove.control.directory.directory import Directory
from mangrove.control.neighbours import Neighbours
from mangrove.control.offloading.problem import Audience, Bundle
from mangrove.control.profile.profile import LoadProfile
from mangrove.control.site import Site
from mangrove.model.agents.load import BrokerLoad, ClusterLoad, LoadState, Metric
from mangrove.model.agents.registration import Assignment, ClientRole
from mangrove.model.events.event_log import EventId

PAUSE_S = 0.2
PAUSE_DELAYS = 4.0
"""What was sent the old way may be on its way for so many times the delay of the link."""


class DomainView:
    """Implements `Surroundings`; `follow` makes the directory follow a session's targets."""

    def __init__(
        self,
        site: Site,
        watch: BrokerWatch,
        clients: Clients,
        directory: Directory,
        profile: LoadProfile,
        advertising: Advertising,
        neighbours: Neighbours,
        follow: Callable[[str, float, EventId | None], None],
        relieved: Callable[[BrokerLoad, float], Metric | None] = lambda _load, _now: None,
    ) -> None:
        """`relieved`: the metric on which a broker would be overloaded if nobody were limited, and others
        have room."""
        self._relieved = relieved
        self._site = site
        self._watch = watch
        self._clients = clients
        self._directory = directory
        self._profile = profile
        self._advertising = advertising
        self._neighbours = neighbours
        self._follow = follow
        self._looked_at = 0.0

    def loads(self, now: float) -> Mapping[str, BrokerLoad]:
        """How all brokers are, by name.

        Limits must not hide that load could be moved: a broker that only they keep out of overload counts
        as one that has just reached it, as long as others have room.
        """
        self._looked_at = now
        loads = self._watch.loads(now)
        hidden = {
            broker: metric
            for broker, load in loads.items()
            if (metric := self._relieved(load, now)) is not None
        }
        if not hidden:
            return loads
        high = self._site.balancing.high
        return {
            broker: load if broker not in hidden else as_overloaded(load, hidden[broker], high)
            for broker, load in loads.items()
        }

    def set_busy(self, broker: str, session: str) -> bool:
        """A broker takes part in a session; False if it takes part in another."""
        return self._watch.set_busy(broker, session)

    def clear_busy(self, broker: str, session: str) -> None:
        """A session is over for a broker."""
        self._watch.clear_busy(broker, session)

    def changed_by(self, broker: str) -> EventId | None:
        """The event that told of a broker's state."""
        return self._watch.changed_by(broker)

    def bundles(self, broker: str, now: float, *, publishers: bool) -> Sequence[Bundle]:
        """What could leave a broker."""
        measured = self._watch.loads(now)[broker]
        if publishers:
            return self._profile.publishers(broker, self.publisher_audience, self._neighbours_fed, measured)
        return self._profile.subscribers(broker, self._advertising.subscriber_class, measured)

    def publisher_audience(self, topic: str) -> Audience:
        """Where the subscribers of a topic are."""
        local = bool(self._clients.placements.brokers(ClientRole.SUBSCRIBER, topic))
        return self._advertising.publisher_class(topic, local_subscribers=local)

    def _neighbours_fed(self, topic: str) -> int:
        """The gateway tells whether a topic leaves the domain, not by how many links."""
        return 1 if self._advertising.wanted_elsewhere(topic) else 0

    def topics_at(self, broker: str) -> frozenset[str]:
        """What a broker is certain to serve: a client of it was heard of lately.

        Such a topic costs an acceptor no input, so what a dead client alone had there must not count.
        """
        members = self._clients.placements.members
        return frozenset(
            topic
            for topic in self._profile.topics(broker)
            if any(
                self._clients.heard_lately(served.client, self._looked_at)
                for served in members(ClientRole.SUBSCRIBER, topic, broker)
            )
        )

    def members(self, topic: str, broker: str, *, publishers: bool) -> Iterable[WishId]:
        """Clients of a topic at a broker that can be told to move; queue groups stay together."""
        role = ClientRole.PUBLISHER if publishers else ClientRole.SUBSCRIBER
        return [
            served.id
            for served in self._clients.placements.members(role, topic, broker)
            if served.wish.movable and not served.wish.queue
        ]

    def assignment(self, topic: str, broker: str) -> Assignment:
        """Where the clients of a topic go."""
        url = self._site.url(broker) if self._site.has(broker) else ""
        return Assignment(broker=broker, url=url, epoch=self._directory.epoch(topic))

    def follow(self, topic: str, now: float, decision: EventId | None) -> None:
        """A topic has, or no longer has, a target: the directory must say so."""
        self._follow(topic, now, decision)

    def may_leave(self, topic: str) -> bool:
        """Whether clients of a topic could be served in another domain and miss nothing."""
        return self._site.may_leave(topic)

    def neighbours(self, now: float) -> Mapping[str, ClusterLoad]:
        """Linked domains that are there and take load from this one."""
        accepting = [peer for peer in self._neighbours.online() if self._neighbours.accepts(peer)]
        loads = {peer: self._neighbours.load_of(peer, now) for peer in accepting}
        return {peer: load for peer, load in loads.items() if load is not None}

    def pause_s(self, peer: str) -> float:
        """How long a message may be on its way to a linked domain."""
        federation = self._site.federation
        delays = [
            federation.link_weight(link)
            for link in federation.links_of(self._site.domain)
            if link.other(self._site.domain) == peer
        ]
        return PAUSE_S + PAUSE_DELAYS * max(delays, default=0.0) / 1000


def as_overloaded(load: BrokerLoad, metric: Metric, high: float) -> BrokerLoad:
    """The same broker as if it had just reached overload on a metric."""
    state = load.state if load.state is LoadState.BUSY else LoadState.OVERLOAD
    return msgspec.structs.replace(
        load,
        state=state,
        measured=LoadState.OVERLOAD,
        utilisation={**load.utilisation, metric: max(load.utilisation.get(metric, 0.0), high)},
        overloaded=tuple(dict.fromkeys((*load.overloaded, metric))),
    )
