"""Topics with those who publish them, here and elsewhere, as congestion control sees them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from itertools import islice

from mangrove.control.advertising import Advertising
from mangrove.control.clients.registry import Clients
from mangrove.control.congestion.domain.audiences import Audiences
from mangrove.control.congestion.domain.demand import Demand, Offering
from mangrove.control.congestion.domain.gateway_orders import OTHERS, GatewayOrders
from mangrove.control.congestion.domain.origins import Origins
from mangrove.control.congestion.opinions import Opinions
from mangrove.control.congestion.surroundings import PublisherOffer, TopicOffer
from mangrove.control.directory.directory import Directory
from mangrove.control.profile.profile import LoadProfile
from mangrove.control.site import Site
from mangrove.model.agents.load import BrokerLoad
from mangrove.model.agents.registration import ClientRole, Report
from mangrove.model.agents.usefulness import MAX_VOTES, PLAIN_ORIGIN
from mangrove.model.patterns.cover import has_wildcard
from mangrove.model.subjects import matches

ELSEWHERE = "elsewhere/"
"""Before the origin of a publisher in another domain, where publishers are named."""
MAX_TOPICS_A_PATTERN = 50
"""A vote of a subscription with wildcards counts for so many of its publisher's topics."""
DEFAULT_SIZE_BYTES = 256.0


class Publishers:
    """Who publishes what, and what subscribers think of it."""

    def __init__(
        self,
        site: Site,
        clients: Clients,
        directory: Directory,
        profile: LoadProfile,
        advertising: Advertising,
        demand: Demand,
        gateway: GatewayOrders,
        head: Callable[[float], BrokerLoad],
    ) -> None:
        """`head` is the load of the broker that takes in what is published."""
        self.refused: Counter[str] = Counter()
        self.origins = Origins()
        self.opinions = Opinions(site.federation.congestion, self._publishes)
        self._site = site
        self._clients = clients
        self._directory = directory
        self._profile = profile
        self._advertising = advertising
        self._demand = demand
        self._gateway = gateway
        self._head = head

    # -- votes ----------------------------------------------------------------------------------------------

    def voted(self, report: Report, now: float) -> set[str]:
        """Take a client's votes in; topics on which it judged publishers elsewhere."""
        abroad: set[str] = set()
        client = self._clients.get(report.client)
        left = MAX_VOTES
        for key, votes in report.votes.items():
            served = None if client is None else client.wishes.get(key)
            if served is None or served.wish.role is not ClientRole.SUBSCRIBER:
                self.refused["a vote without a subscription"] += 1
                continue
            if len(votes) > left:
                self.refused["too many votes in a report"] += len(votes) - left
                votes = dict(islice(votes.items(), left))
            left -= len(votes)
            pattern, weight = served.topic, served.wish.weight
            if not has_wildcard(pattern):
                self.opinions.heard(report.client, weight, pattern, votes, now)
                if any(origin and self.origins.client_of(origin) is None for origin in votes):
                    abroad.add(pattern)
                continue
            for origin, vote in votes.items():
                local = self.origins.client_of(origin)
                for topic in self._under(pattern, local):
                    self.opinions.heard(report.client, weight, topic, {origin: vote}, now)
                    if local is None and origin:
                        abroad.add(topic)
        return abroad

    def _under(self, pattern: str, client: str | None) -> list[str]:
        """Topics under a pattern that a client publishes, or others do."""
        if client is not None:
            published = (topic for topic in self._demand.of(client) if matches(pattern, topic))
            return list(islice(published, MAX_TOPICS_A_PATTERN))
        return self._advertising.topics(pattern, limit=MAX_TOPICS_A_PATTERN)

    def ended(self, client: str, topic: str) -> None:
        """A client has given a subscription up."""
        self.opinions.ended(client, topic)

    def _publishes(self, topic: str, origin: str) -> bool:
        """Whether messages of an origin on a topic can be: nobody is judged by what was never sent."""
        if origin == PLAIN_ORIGIN:
            return True
        client = self.origins.client_of(origin)
        if client is not None:
            return topic in self._demand.of(client)
        return any(each.source != self._site.domain for each in self._advertising.publishers_of(topic))

    # -- offers ---------------------------------------------------------------------------------------------

    def audiences(self, now: float) -> Audiences:
        """Who listens, at this time."""
        return Audiences(
            self._site,
            self._clients.placements,
            self._profile.plain_clients,
            self._advertising.wanted_elsewhere,
            lambda topic: self.opinions.remote_subscribers(topic, now),
            self._directory.publish_at,
        )

    def offers(self, now: float) -> list[TopicOffer]:
        """Every topic that SDK clients publish, or that comes from other domains."""
        local: dict[str, list[tuple[str, Offering]]] = defaultdict(list)
        for client, topic, offering in self._demand:
            local[topic].append((client, offering))
        audiences = self.audiences(now)
        found = []
        for topic in sorted({*local, *self._gateway.topics(now)}):
            audience = audiences.of(topic, home=topic in local)
            here = local.get(topic, [])
            subscribers = audience.subscribers
            if not subscribers:
                here = [(client, _only_said(each)) for client, each in here]
                subscribers = self._unseen(topic, here)
            publishers = self._publishers_of(topic, here, now)
            if publishers:
                found.append(
                    TopicOffer(
                        topic=topic,
                        utility=sum(each.utility for each in publishers) / len(publishers),
                        subscribers=subscribers,
                        publishers=publishers,
                        copies=audience.copies,
                        protected=self.is_protected(topic),
                    )
                )
        return found

    def _unseen(self, topic: str, here: list[tuple[str, Offering]]) -> int:
        """Who was not counted may listen, if anything is said: the SDK is silent where nobody does."""
        always = self._site.federation.topics.contract_of(topic).always_send
        return 0 if always else int(any(offering.said_msg_s for _, offering in here))

    def is_protected(self, topic: str) -> bool:
        """Whether a topic is never limited: its contract says so, or its deadline is short."""
        contract = self._site.federation.topics.contract_of(topic)
        limit_ms = self._site.federation.congestion.protect_deadline_ms
        urgent = (
            limit_ms is not None and contract.deadline_ms is not None and contract.deadline_ms <= limit_ms
        )
        return contract.protected or urgent

    def _publishers_of(
        self, topic: str, here: list[tuple[str, Offering]], now: float
    ) -> tuple[PublisherOffer, ...]:
        offers = [
            PublisherOffer(
                client,
                self.opinions.utility(topic, self.origins.origin_of(client) or PLAIN_ORIGIN, now),
                offering.msg_s,
                offering.said_msg_s,
                offering.size_bytes or DEFAULT_SIZE_BYTES,
            )
            for client, offering in here
            if offering.msg_s > 0.0
        ]
        foreign = self._gateway.offers(topic, now)
        if foreign:
            size = offers[0].size_bytes if offers else self._mean_bytes(now) or DEFAULT_SIZE_BYTES
            utilities = self._utilities_elsewhere(topic, now)
            mean = sum(utilities.values()) / len(utilities) if utilities else None
            for origin, offered_msg_s, said_msg_s, size_bytes in foreign:
                utility = utilities.get(origin, mean) if origin == OTHERS else utilities.get(origin)
                if utility is None:
                    utility = self.opinions.utility(topic, origin, now)
                offers.append(
                    PublisherOffer(ELSEWHERE + origin, utility, offered_msg_s, said_msg_s, size_bytes or size)
                )
        return tuple(offers)

    def _mean_bytes(self, now: float) -> float:
        head = self._head(now)
        return head.bytes_in_s / head.messages_in_s if head.messages_in_s > 1.0 else 0.0

    def _utilities_elsewhere(self, topic: str, now: float) -> Mapping[str, float]:
        """Of origins that were judged lately and are no client's of this domain."""
        judged = self.opinions.opinion(topic, "", self._site.domain, 0, now).votes
        return {
            origin: self.opinions.utility(topic, origin, now)
            for origin in judged
            if origin and self.origins.client_of(origin) is None
        }


def _only_said(offering: Offering) -> Offering:
    """Nobody listens: what is withheld would not be said without a limit either."""
    return Offering(offering.said_msg_s, offering.said_bytes_s)
