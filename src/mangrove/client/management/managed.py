"""A connection whose subscriptions and publishers are placed, watched and moved by its domain's agent."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import logging
from collections import Counter
from collections.abc import Callable
from functools import partial

from mangrove.broker.client_connection import BrokerAwayError, ClientConnection
from mangrove.client.broker_pool import ASKED_S, BrokerPool, brokers_of, same_broker
from mangrove.client.filtering.publish_filter import PublishFilter
from mangrove.client.legs import Legs
from mangrove.client.management.identity import Identity
from mangrove.client.management.link import ManagementLink
from mangrove.client.management.membership import Membership
from mangrove.client.management.moves import SubscriptionMoves, migrated
from mangrove.client.management.ordered_limits import OrderedLimits
from mangrove.client.management.publisher_moves import PublisherMoves
from mangrove.client.message import MessageIds, Respond
from mangrove.client.migration.publisher_move import Route
from mangrove.client.mirroring.mirroring import Mirroring
from mangrove.client.publishing import Published, Withheld
from mangrove.client.readiness import Readiness
from mangrove.client.subscription import Subscription
from mangrove.client.usefulness.votes import largest
from mangrove.model.agents.directions import Directions
from mangrove.model.agents.directory import DirectoryRecord
from mangrove.model.agents.registration import MIRRORED_KEY, ClientRole, Migrated, Order, Traffic, Wish
from mangrove.model.agents.usefulness import Lag, LimitsOrdered, Vote
from mangrove.model.balancing import Placement

log = logging.getLogger(__name__)

MAX_PUBLISHED = 2_000
"""Published subjects that are managed; others are published at the head."""
MAX_REPORTED = 5_000
"""Subscriptions, and published subjects, in one report."""
MAX_FOREIGN_NAMES = 1_000
"""Brokers of other domains whose names are known."""
MAX_LAGS = 1_000
"""Subscriptions that do not keep up, in one report."""
TIDY_S = ASKED_S + 0.5
FOLLOW_AGAIN_S = 3.0
"""A subject that could not be published where the directory says is tried there again after this time."""
CONNECT_S = 1.0
"""A broker that does not answer for so long does not serve a new subscription."""
LINK_S = 0.3
"""How long a new connection waits for the management broker, so that its subscriptions can be placed."""


class Managed:
    """What an agent sees of one connection, and what it does with it."""

    def __init__(
        self,
        directions: Directions,
        link: ManagementLink,
        identity: Identity,
        name: str,
        pool: BrokerPool,
        head: ClientConnection,
        usual: ClientConnection,
    ) -> None:
        """At `head` is published, and at `usual` subscribed, unless an agent says otherwise."""
        self._directions = directions
        self._link = link
        self._pool = pool
        self._kept = (head, usual)
        self._membership = Membership(link, identity, name, self)
        self._mirroring: Mirroring | None = None
        self._keys: dict[Subscription, str] = {}
        self._subscriptions: dict[str, Subscription] = {}
        self._reported: dict[str, tuple[int, int]] = {}
        self._published: Callable[[], dict[str, Published]] = dict
        self._published_before: dict[str, tuple[int, int]] = {}
        self._publishers: dict[str, str] = {}
        """Keys of published subjects."""
        self._subjects: dict[str, str] = {}
        """Published subjects by key."""
        self._publish_at: dict[str, str] = {}
        """What the directory said last of where subjects are published, if not at the head."""
        self._astray: set[str] = set()
        """Subjects that are not published there, for it failed, and nothing else has been ordered since."""
        self._following: asyncio.TimerHandle | None = None
        self._numbers = itertools.count(1)
        self._assigned: dict[str, str] = {}
        self._legs: Legs | None = None
        self._moves: SubscriptionMoves | None = None
        self._publisher_moves: PublisherMoves | None = None
        self._foreign_names: dict[str, str] = {}
        self._rtt_ms: dict[str, float] = {}
        self._tidying: asyncio.TimerHandle | None = None
        self._ordered: dict[str, int] = {}
        """The latest decision that each wish was ordered by: one that comes late is not gone back to."""
        self._limits = OrderedLimits()
        self._withheld: Callable[[], dict[str, Withheld]] = dict
        self._withheld_before: dict[str, tuple[int, int]] = {}
        self.origin = ""
        """See `Member`."""
        self.moved: Counter[str] = Counter()
        """Orders carried out, and what became of them."""

    def begin(
        self,
        legs: Legs,
        published: Callable[[], dict[str, Published]],
        route: Route,
        publishing: PublishFilter,
        ids: MessageIds,
        respond: Respond,
    ) -> None:
        """The connection is there: from here on its legs, its outlets and its limits may change."""
        self.origin = ids.prefix
        self._limits.begin(publishing.order)
        self._withheld = lambda: publishing.withheld
        head = self._kept[0]
        self._legs = legs
        self._published = published
        self._moves = SubscriptionMoves(
            self._link, legs, self._pool, head, self._name_of, self._subscription_moved
        )
        self._publisher_moves = PublisherMoves(
            self._directions.domain, self._pool, head, route, self._publisher_moved
        )
        self._mirroring = Mirroring(
            legs,
            respond,
            head,
            ids.head_form,
            terms=self._directions.terms,
            directory=self._membership.directory,
            url_of=self._url_of,
            open_=self._pool.apart,
            route=route,
            suspect=self._membership.suspect,
            name_of=self._name_of,
        )
        self._pool.listener = self

    async def open(self) -> None:
        """Register as soon as there is something to register."""
        self._membership.open()
        await self._link.wait(LINK_S)
        if self._directions.placement == Placement.WAN:
            edges = self._directions.edges
            trips = await asyncio.gather(*(self._pool.measure(edge.url) for edge in edges))
            self._rtt_ms = {
                edge.name: trip for edge, trip in zip(edges, trips, strict=True) if trip is not None
            }

    async def close(self) -> None:
        """Leave the agent; what moves stays where it is. What fails keeps nothing else from ending."""
        self._pool.listener = None
        self._limits.close()
        for timer in (self._tidying, self._following):
            if timer is not None:
                timer.cancel()
        async with contextlib.AsyncExitStack() as last_first:
            for part in (self._mirroring, self._membership, self._publisher_moves, self._moves):
                if part is not None:
                    last_first.push_async_callback(part.close)

    @property
    def mirroring(self) -> Mirroring:
        """The mirrors."""
        assert self._mirroring is not None, "asked for once the connection is there"
        return self._mirroring

    @property
    def membership(self) -> Membership:
        """The registration."""
        return self._membership

    # -- subscriptions and publishers come and go -----------------------------------------------------------

    async def place(
        self, subscription: Subscription, deadline_ms: float | None, weight: float
    ) -> ClientConnection:
        """Where a new subscription is to be served; if no agent says so in time, as usual."""
        key = f"s{next(self._numbers)}"
        self._keys[subscription] = key
        self._subscriptions[key] = subscription
        wish = Wish(
            key=key,
            role=ClientRole.SUBSCRIBER,
            subject=subscription.subject,
            queue=subscription.queue,
            deadline_ms=deadline_ms,
            weight=weight,
            movable=not subscription.queue,
        )
        assignment = await self._membership.place(wish)
        url = "" if assignment is None else self._url_of(assignment.broker)
        if assignment is not None:
            self._assigned[key] = assignment.broker
        if url:
            try:
                async with asyncio.timeout(CONNECT_S):
                    return await self._pool.at(url)
            except (BrokerAwayError, TimeoutError) as error:
                log.info("%s is not served where it was to be: %s", subscription.subject, error)
        return self._kept[1]

    def placed(self, subscription: Subscription) -> None:
        """It is served; if not where it was to be, the agent hears of it."""
        self.mirroring.subscribed(subscription)
        key = self._keys[subscription]
        assigned = self._assigned.pop(key, None)
        if assigned is not None and assigned != self.broker_of(key):
            self._membership.say_again([key])

    async def ended(self, subscription: Subscription) -> None:
        """A subscription is over."""
        self.mirroring.ended(subscription)
        key = self._keys.pop(subscription, None)
        if key is not None:
            del self._subscriptions[key]
            self._reported.pop(key, None)
            self._reported.pop(key + MIRRORED_KEY, None)
            self._ordered.pop(key, None)
            self._membership.end(key)
        if self._moves is not None:
            await self._moves.end(subscription)

    def published(self, subject: str) -> None:
        """A subject is published on for the first time."""
        if len(self._publishers) >= MAX_PUBLISHED or subject in self._publishers:
            return
        key = self._publishers[subject] = f"p{next(self._numbers)}"
        self._subjects[key] = subject
        self._membership.add(Wish(key=key, role=ClientRole.PUBLISHER, subject=subject))
        record = self._membership.directory.get(subject)
        if record is not None:
            self.directory_changed([record])
        self.mirroring.published(subject)

    def domain_of(self, subscription: Subscription) -> str:
        """The other domain that serves a subscription; empty if this one does."""
        return "" if self._moves is None else self._moves.domain_of(subscription)

    def readiness_in(self, domain: str) -> Readiness:
        """Who tells whether a subscription is in force that this other domain serves."""
        assert self._moves is not None, "asked for once something is served there"
        return self._moves.readiness_in(domain)

    def tidy(self) -> None:
        """Let go of brokers that nothing of this connection is at any more."""
        if self._pool.tidy(self._uses) and self._tidying is None:
            self._tidying = asyncio.get_running_loop().call_later(TIDY_S, self._tidy_again)

    def _tidy_again(self) -> None:
        self._tidying = None
        self.tidy()

    def _uses(self, wire: ClientConnection) -> bool:
        if self._legs is None or self._moves is None or self._publisher_moves is None:
            return True
        used = (*self._kept, *self._moves.targets(), *self._publisher_moves.wires())
        return wire in used or bool(self._legs.at(wire))

    # -- what the registration asks --------------------------------------------------------------------------

    def broker_of(self, key: str) -> str:
        """See `Member`."""
        subscription = self._subscriptions.get(key)
        if subscription is None:
            subject = self._subjects.get(key)
            assert self._publisher_moves is not None
            return "" if subject is None else self._name_of(self._publisher_moves.wire_of(subject))
        leg = None if self._legs is None else self._legs.of(subscription)
        return "" if leg is None else self._name_of(leg.wire)

    def rtt_ms(self) -> dict[str, float]:
        """See `Member`."""
        return self._rtt_ms

    def traffic(self) -> tuple[dict[str, Traffic], dict[str, Traffic]]:
        """See `Member`."""
        subscriptions = {}
        for key, each in self._subscriptions.items():
            copies = each.mirrored
            subscriptions[key] = each.messages - copies.messages, each.size_bytes - copies.size_bytes
            if copies.messages:
                subscriptions[key + MIRRORED_KEY] = copies.messages, copies.size_bytes
        published = {
            subject: (each.messages, each.size_bytes)
            for subject, each in self._published().items()
            if subject in self._publishers
        }
        return _since(subscriptions, self._reported), _since(published, self._published_before)

    def votes(self) -> dict[str, dict[str, Vote]]:
        """See `Carrier`."""
        return largest(
            {
                key: said
                for key, each in self._subscriptions.items()
                if each.votes is not None and (said := each.votes.collect())
            }
        )

    def lags(self) -> dict[str, Lag]:
        """See `Carrier`."""
        now = asyncio.get_running_loop().time()
        lags = {key: lag for key, each in self._subscriptions.items() if (lag := each.lag(now)) is not None}
        if len(lags) <= MAX_LAGS:
            return lags
        return dict(heapq.nlargest(MAX_LAGS, lags.items(), lambda one: (one[1].lost, one[1].pending)))

    def withheld(self) -> dict[str, Traffic]:
        """See `Carrier`: what a limit kept back is demand, what nobody listens to is not."""
        limited = {
            subject: (
                each.limited.messages + each.delayed.messages,
                each.limited.size_bytes + each.delayed.size_bytes,
            )
            for subject, each in self._withheld().items()
            if subject in self._publishers
        }
        return _since(limited, self._withheld_before)

    def limits_epoch(self) -> int:
        """See `Carrier`."""
        return self._limits.epoch

    def limited(self, order: LimitsOrdered) -> str:
        """See `Member`."""
        return self._limits.ordered(order)

    def directory_changed(self, records: list[DirectoryRecord]) -> None:
        """Publish where the directory says, if that is new: orders may lead elsewhere meanwhile."""
        for record in records:
            topic = record.topic
            if topic in self._publishers and record.publish_at != self._publish_at.get(topic, ""):
                self._follow(topic, record.publish_at)
        self.mirroring.records_changed(records)

    def _follow(self, subject: str, publish_at: str) -> None:
        assert self._publisher_moves is not None
        url = self._url_of(publish_at or self._directions.head.name)
        if url:
            self._publish_at[subject] = publish_at
            self._astray.discard(subject)
            self._publisher_moves.follow(subject, url)

    def _follow_again(self) -> None:
        """What failed may succeed by now, and the directory may say something else."""
        self._following = None
        for subject in list(self._astray):
            record = self._membership.directory.get(subject)
            self._follow(subject, "" if record is None else record.publish_at)

    def ordered(self, order: Order) -> None:
        """Carry out what the agent orders, if it makes sense."""
        assert self._moves is not None
        assert self._publisher_moves is not None
        subscription = self._subscriptions.get(order.key)
        subject = self._subjects.get(order.key)
        away = order.domain not in ("", self._directions.domain)
        url = order.to.url if away else self._url_of(order.to.broker)
        problem = ""
        if subscription is None and subject is None:
            problem = "this client has no such wish"
        elif not url:
            problem = f"{order.to.broker} is no broker of {self._directions.domain}"
        elif subscription is not None and subscription.queue:
            problem = "members of queue groups do not move"
        elif order.to.epoch < self._ordered.get(order.key, 0):
            self._membership.ignored["older orders"] += 1
            return
        if problem:
            self._membership.ignored["orders that make no sense"] += 1
            self._membership.migrated(partial(migrated, order, self.broker_of(order.key), problem, 0.0, 0))
            return
        self._ordered[order.key] = order.to.epoch
        if order.domain:
            self._foreign_names.pop(url, None)
            self._foreign_names[url] = order.to.broker
            if len(self._foreign_names) > MAX_FOREIGN_NAMES:
                del self._foreign_names[next(iter(self._foreign_names))]
        if subscription is not None:
            self._moves.order(subscription, order, url)
        elif subject is not None:
            self._astray.discard(subject)
            self._publisher_moves.order(subject, order, url)

    # -- what happens to connections and moves ---------------------------------------------------------------

    def wire_lost(self, wire: ClientConnection) -> None:
        """A broker is gone: moves to or from it are decided, and mirrors serve instead."""
        self.mirroring.wire_lost(wire)
        if self._moves is not None:
            self._moves.lost(wire)

    def wire_back(self, wire: ClientConnection) -> None:
        """A connection has another broker now: the agent learns what is served there."""
        if self._legs is None or self._publisher_moves is None:
            return
        if self._moves is not None:
            self._moves.back(wire)
        self.mirroring.wire_back(wire)
        self._membership.say_again(self._keys[each] for each in self._legs.at(wire) if each in self._keys)
        self._membership.say_again(
            self._publishers[each] for each in self._publisher_moves.at(wire) if each in self._publishers
        )

    def _subscription_moved(
        self, subscription: Subscription, told: Callable[[str, int], Migrated], problem: str
    ) -> None:
        self.moved["stayed" if problem else "moved"] += 1
        self._membership.migrated(told)
        self.tidy()

    def _publisher_moved(
        self, subject: str, told: Callable[[str, int], Migrated] | None, problem: str
    ) -> None:
        self.moved["publisher stayed" if problem else "publisher moved"] += 1
        assert self._publisher_moves is not None
        if told is not None:
            self._membership.migrated(told)
        elif problem and not self._publisher_moves.awaits_more(subject):
            self._astray.add(subject)
            if self._following is None:
                self._following = asyncio.get_running_loop().call_later(FOLLOW_AGAIN_S, self._follow_again)
        self.tidy()

    def _url_of(self, broker: str) -> str:
        """Only brokers of the domain as it was described are gone to, however an order calls them."""
        return next((each.url for each in brokers_of(self._directions) if each.name == broker), "")

    def _name_of(self, wire: ClientConnection) -> str:
        for each in brokers_of(self._directions):
            if same_broker(each.url, wire.url):
                return each.name
        foreign = self._foreign_names.items()
        with contextlib.suppress(StopIteration):
            return next(name for url, name in foreign if same_broker(url, wire.url))
        return ""


def _since(now: dict[str, tuple[int, int]], before: dict[str, tuple[int, int]]) -> dict[str, Traffic]:
    """What has come since `before`, which is brought up to date; what is left out is told next time."""
    grown = [key for key, (messages, _) in now.items() if messages > before.get(key, (0, 0))[0]]
    if len(grown) > MAX_REPORTED:
        grown = heapq.nlargest(MAX_REPORTED, grown, lambda key: now[key][0] - before.get(key, (0, 0))[0])
    result = {}
    for key in grown:
        messages, size_bytes = before.get(key, (0, 0))
        result[key] = Traffic(now[key][0] - messages, now[key][1] - size_bytes)
        before[key] = now[key]
    return result
