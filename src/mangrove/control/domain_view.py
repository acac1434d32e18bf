"""A domain as its sessions see it, put together from what the agent knows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec.structs import replace

from mangrove.control.advertising import Advertising
from mangrove.control.broker_watch import BrokerWatch
from mangrove.control.clients.placements import WishId
from mangrove.control.clients.registry import Clients
from mangrove.control.directory.directory import Directory
from mangrove.control.neighbours import Neighbours
from mangrove.control.offloading.problem import Audience, Bundle
from mangrove.control.profile.profile import LoadProfile
from mangrove.control.site import Site
from mangrove.model.agents.load import Amounts, BrokerLoad, ClusterLoad
from mangrove.model.agents.registration import Assignment, ClientRole
from mangrove.model.events.event_log import EventId
from mangrove.model.plans.plan import Placing

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
        as_offered: Callable[[BrokerLoad, float], BrokerLoad] = lambda load, _now: load,
        offered_parts: Callable[[], Mapping[str, float]] = dict,
        on_their_way: Callable[[str], bool] = lambda _topic: False,
    ) -> None:
        """`as_offered`: a broker as if no publisher were limited; `offered_parts`: how many times what is
        said of limited topics would be said then. Subscribers of topics that are `on_their_way` by a plan
        are no session's to move."""
        self._on_their_way = on_their_way
        self._as_offered = as_offered
        self._offered_parts = offered_parts
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
        """How all brokers would be if nobody were limited: sessions move what is offered."""
        self._looked_at = now
        return {broker: self._as_offered(load, now) for broker, load in self._watch.loads(now).items()}

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
            found = self._profile.publishers(broker, self.publisher_audience, self._neighbours_fed, measured)
        else:
            found = self._profile.subscribers(broker, self._advertising.subscriber_class, measured)
            found = tuple(bundle for bundle in found if not self._on_their_way(bundle.topic))
        parts = self._offered_parts()
        return [_grown(bundle, parts.get(bundle.topic, 1.0)) for bundle in found]

    def topic_rates(self, now: float) -> dict[str, float]:
        """Messages a second of what subscribers of this domain get, by topic, as reported."""
        rates: dict[str, float] = {}
        for broker in self._site.edges:
            for bundle in self.bundles(broker, now, publishers=False):
                rates[bundle.topic] = max(rates.get(bundle.topic, 0.0), bundle.stream.matching)
        return rates

    def places(self) -> dict[str, Placing]:
        """Where topics are, by the directory: the broker for new subscribers, and the mirror."""
        return {
            topic: Placing(primary=record.edges[0], mirror=record.mirror)
            for topic in self._directory
            if (record := self._directory.get(topic)) is not None and record.edges
        }

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


def _grown(bundle: Bundle, part: float) -> Bundle:
    """A bundle whose publishers are limited, with what they would say."""
    if part == 1.0:
        return bundle
    return replace(
        bundle,
        load=_times(bundle.load, part),
        stream=_times(bundle.stream, part),
        output=bundle.output * part,
        members=tuple(replace(member, load=_times(member.load, part)) for member in bundle.members),
    )


def _times(amounts: Amounts, part: float) -> Amounts:
    return Amounts(*(amount * part for amount in amounts))
