"""Congestion control in an agent: everything about it comes in here, and what is to be told goes out."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from mangrove.control.advertising import Advertising
from mangrove.control.broker_watch import BrokerWatch
from mangrove.control.clients.placements import Served
from mangrove.control.clients.registry import Clients
from mangrove.control.congestion.controller import CongestionControl
from mangrove.control.congestion.domain.account import account, usefulness
from mangrove.control.congestion.domain.capacities import Capacities
from mangrove.control.congestion.domain.contract_shares import ContractShares
from mangrove.control.congestion.domain.demand import Demand
from mangrove.control.congestion.domain.gateway_orders import GatewayOrders
from mangrove.control.congestion.domain.limit_orders import LimitOrders
from mangrove.control.congestion.domain.opinions_abroad import OpinionsAbroad
from mangrove.control.congestion.domain.plain_publishers import PlainPublishers
from mangrove.control.congestion.domain.publishers import ELSEWHERE, Publishers
from mangrove.control.congestion.domain.room import room_elsewhere
from mangrove.control.congestion.domain.slow_subscribers import SlowSubscribers
from mangrove.control.congestion.domain.stored import CongestionRecords, Found
from mangrove.control.congestion.surroundings import TopicOffer
from mangrove.control.directory.directory import Directory
from mangrove.control.domain_view import DomainView
from mangrove.control.instructions import Instruction
from mangrove.control.load.states import state_of
from mangrove.control.profile.profile import LoadProfile
from mangrove.control.site import Site
from mangrove.control.stimuli import GatewayAnswered, PlainClientsSeen, TopicsCounted
from mangrove.model.agents.load import Amounts, BrokerLoad, LoadState
from mangrove.model.agents.registration import ClientRole, Registration, Report
from mangrove.model.agents.usefulness import (
    CapacityTold,
    CongestionStatus,
    TopicUsefulness,
    UsefulnessTold,
)
from mangrove.model.congestion.rate_limit import LimitCause, RateLimit
from mangrove.model.events.event_log import EventId, EventLog

MIN_ROOM = 0.05
"""Others must have room for at least this part of a broker's capacity, or no session is worth its while."""
TOPICS_S = 3.0
TOPICS_A_SECOND = 500
"""Usefulness is put together for people so seldom that it costs no more than so many topics in a second."""


class Declarations(Protocol):
    """Where congestion is declared: the session coordinator."""

    @property
    def declared(self) -> Mapping[str, EventId]:
        """Brokers that are congested, with the events that told so."""

    def declare(self, load: BrokerLoad, tried: Sequence[str], now: float) -> None:
        """It is evident that nobody has room for what a broker must lose."""


class CongestionDepartment:
    """One term's congestion control, publish limits, opinions and slow subscribers."""

    def __init__(
        self,
        site: Site,
        watch: BrokerWatch,
        view: DomainView,
        clients: Clients,
        directory: Directory,
        profile: LoadProfile,
        advertising: Advertising,
        log: EventLog,
        sessions: Callable[[], Declarations],
        *,
        term: int,
        number: Callable[[], int],
        found: Found,
        paused: Callable[[], bool] = lambda: False,
    ) -> None:
        """`number` numbers writes to the store; `found` is what an earlier leader left there.

        While `paused`, nobody is newly limited or disconnected.
        """
        self._paused = paused
        federation = site.federation
        self._site = site
        self._watch = watch
        self._view = view
        self._clients = clients
        self._sessions = sessions
        self._found = found
        self._demand = Demand()
        self._gateway = GatewayOrders(term)
        self._publishers = Publishers(
            site, clients, directory, profile, advertising, self._demand, self._gateway, self._head
        )
        self._shares = ContractShares(federation.topics, clients.placements, self._demand)
        self._orders = LimitOrders(term)
        self._abroad = OpinionsAbroad(
            federation, site.domain, self._publishers.opinions, advertising, self._subscribers
        )
        self._slow = SlowSubscribers(federation.topics, log)
        self._plain = PlainPublishers(
            federation.limits.client, log, enabled=federation.congestion.disconnect_plain_publishers
        )
        self._capacities = Capacities(site, log, self._set_capacity)
        self._records = CongestionRecords(number, found)
        self.control = CongestionControl(federation.congestion, site.balancing, self, log, paused=paused)
        self._shared_at = -math.inf
        self._contract: dict[str, dict[str, RateLimit]] = {}
        self._topics: list[TopicUsefulness] = []
        self._topics_of = (self.control.state, 0)
        self._topics_until = -math.inf

    def begin(self, now: float) -> list[Instruction]:
        """Take up what an earlier leader left: nobody is set free, or forgotten, with an agent's death."""
        self._capacities.restore(self._found.parts, now)
        stored = self._found.limits
        self.control.resume(self._found.in_force(now), () if stored is None else stored.brokers, now)
        if stored is not None and not self.control.limits:
            self._records.limits_changed((), {})
        return self._tell_limits(now)

    # -- what is told ---------------------------------------------------------------------------------------

    def registered(
        self, registration: Registration, changed: Iterable[Served], now: float
    ) -> list[Instruction]:
        """A client has registered, and these wishes are new or ended."""
        self._publishers.origins.claim(registration.client, registration.origin)
        self._changed(changed)
        return self._orders.registered(registration.client, now)

    def reported(self, report: Report, now: float) -> None:
        """A client has told what it carried, withheld and thinks."""
        self._demand.report(report)
        self._orders.reported(report.client, report.limits_epoch)
        if report.votes:
            for topic in self._publishers.voted(report, now):
                self._abroad.spoken(topic)
        if report.lags and (client := self._clients.get(report.client)) is not None:
            wishes = {key: (served.wish, served.broker) for key, served in client.wishes.items()}
            self._slow.reported(report.client, client.name, report.lags, wishes, now)

    def left(self, client: str, gone: Iterable[Served], now: float) -> None:
        """A client is gone, with these wishes."""
        self._demand.left(client)
        self._publishers.origins.left(client)
        self._orders.left(client)
        self._slow.left(client, now)
        self._changed(gone)

    def _changed(self, changed: Iterable[Served]) -> None:
        for served in changed:
            if served.wish.role is ClientRole.PUBLISHER:
                self._shares.published(served.topic)
            elif self._clients.served(*served.id) is not served:
                self._publishers.ended(served.client, served.topic)

    def counted(self, counts: TopicsCounted, now: float) -> None:
        """The gateway has told what it carried."""
        self._gateway.counted(counts.span_s, counts.delivered, now)

    def gateway_answered(self, answered: GatewayAnswered) -> None:
        """The gateway has taken limits."""
        self._gateway.answered(answered.answer, answered.span_s)

    def peer_said(self, peer: str, told: UsefulnessTold, now: float) -> None:
        """A linked domain tells opinions."""
        self._abroad.heard(peer, told, now)

    def plain_seen(self, seen: PlainClientsSeen, now: float) -> list[Instruction]:
        """A broker's page of connections."""
        if not self._site.has(seen.broker):
            return []
        told = list(self._slow.seen(seen, now))
        return told if self._paused() else [*told, *self._plain.seen(seen, now)]

    def capacity_told(self, told: CapacityTold, now: float) -> bool:
        """A broker can carry more or less from now on; whether that is news."""
        if not self._capacities.tell(told, now):
            return False
        self._records.capacities_changed(self._capacities.parts)
        self.control.capacity_changed(told.broker)
        return True

    # -- what follows ---------------------------------------------------------------------------------------

    def loaded(self, now: float) -> list[Instruction]:
        """Loads were measured."""
        loads = self._watch.loads(now)
        told: list[Instruction] = [
            *self._slow.look(loads.values(), now),
            *self._plain.look(loads.values(), now),
        ]
        self._slow.calm(now)
        changed = bool(self.control.consider(now))
        if changed:
            self._records.limits_changed(self.control.short, self.control.limits)
        if now >= self._shared_at + 0.9 * self._site.balancing.period_s and (self._shares or self._contract):
            self._shared_at = now
            self._contract = self._shares.limits()
            changed = True
        if changed:
            told += self._tell_limits(now)
        return told + self._records.flush(now)

    def _tell_limits(self, now: float) -> list[Instruction]:
        """What clients and the gateway are to keep to: the strictest of all limits on a subject."""
        clients: dict[str, dict[str, RateLimit]] = defaultdict(dict)
        gateway: dict[str, dict[str, RateLimit]] = defaultdict(dict)
        for client, limits in self._contract.items():
            clients[client] |= limits
        for (topic, publisher), limit in self.control.limits.items():
            brokers = ", ".join(limit.brokers) or self._site.domain
            rate = RateLimit(
                msg_s=limit.msg_s,
                cause=LimitCause.CONGESTION,
                reason=f"{brokers} cannot carry more; utility {limit.utility:.2f}",
            )
            if publisher.startswith(ELSEWHERE):
                gateway[topic][publisher.removeprefix(ELSEWHERE)] = rate
            else:
                clients[publisher][topic] = _stricter(clients[publisher].get(topic), rate)
        return [*self._orders.set(clients, now), *self._gateway.set(gateway, now)]

    def stored(self, write: int) -> None:
        """A write is in the store."""
        self._records.stored(write)

    def not_stored(self, write: int) -> None:
        """A write did not come about."""
        self._records.failed(write)

    def timer(self) -> float:
        """When to be called again."""
        return min(self._orders.timer(), self._gateway.timer(), self._abroad.timer())

    def handle_timer(self, now: float) -> list[Instruction]:
        """Say again what must be, and tell opinions."""
        return [
            *self._orders.handle_timer(now),
            *self._gateway.handle_timer(now),
            *self._abroad.handle_timer(now),
        ]

    # -- the domain, as congestion control sees it ----------------------------------------------------------

    def loads(self, now: float) -> Mapping[str, BrokerLoad]:
        """How all brokers are, by name."""
        return self._watch.loads(now)

    def declared(self, now: float) -> Mapping[str, EventId | None]:
        """Brokers that are declared congested."""
        return self._sessions().declared

    def declare(self, load: BrokerLoad, tried: Sequence[str], now: float) -> None:
        """It is evident that nobody has room for what a broker must lose."""
        self._sessions().declare(load, tried, now)

    def room_elsewhere(self, load: BrokerLoad, now: float) -> Amounts:
        """What others could take of a broker's load at most."""
        neighbours = self._view.neighbours(now).values()
        return room_elsewhere(load, self._watch.loads(now).values(), neighbours, self._site.balancing)

    def as_offered(self, load: BrokerLoad, now: float) -> BrokerLoad:
        """A broker as if nobody were limited: limits must not hide from sessions that load could be moved.

        It is overloaded only if others have room: else there is nothing to be done but what is done.
        """
        offered = self.control.as_offered(load)
        used = {metric: max(share, offered.get(metric, 0.0)) for metric, share in load.utilisation.items()}
        if used == load.utilisation:
            return load
        balancing = self._site.balancing
        metric = max(used, key=lambda each: used[each])
        found = state_of(used.values(), balancing.low, balancing.high)
        if found is LoadState.OVERLOAD and load.measured is not LoadState.OVERLOAD:
            room = self.room_elsewhere(load, now).of(metric)
            if room < MIN_ROOM * load.capacity[metric]:
                found = LoadState.HIGH
        overloaded = found is LoadState.OVERLOAD
        return msgspec.structs.replace(
            load,
            state=load.state if load.state is LoadState.BUSY else found,
            measured=found,
            utilisation=used,
            remaining={each: (balancing.high - share) * load.capacity[each] for each, share in used.items()},
            headroom=balancing.high - used[metric],
            overloaded=tuple(each for each, share in used.items() if overloaded and share >= balancing.high),
        )

    def offered_parts(self) -> Mapping[str, float]:
        """How many times what is said of limited topics would be said without limits."""
        return self.control.offered_parts()

    def offers(self, now: float) -> Sequence[TopicOffer]:
        """Every topic whose publishers can be limited, and the protected ones."""
        return self._publishers.offers(now)

    def _set_capacity(self, broker: str, capacity: Amounts, now: float) -> None:
        self._watch.set_capacity(broker, capacity, now, noting=True)

    def _subscribers(self, topic: str) -> int:
        """Of this domain; somebody there is, if anybody has judged it."""
        return max(1, self._clients.placements.count(ClientRole.SUBSCRIBER, topic))

    def _head(self, now: float) -> BrokerLoad:
        return self._watch.loads(now)[self._site.acting_head]

    # -- questions ------------------------------------------------------------------------------------------

    @property
    def refused(self) -> Counter[str]:
        """What was not believed or not done, by reason."""
        return (
            self._demand.refused
            + self._gateway.refused
            + self._publishers.refused
            + self._publishers.origins.refused
            + self._publishers.opinions.refused
            + self._orders.refused
            + self._abroad.refused
            + self._slow.refused
            + self._plain.refused
        )

    def status(self, now: float) -> CongestionStatus:
        """For people; what takes long to put together is kept for a while, unless limits come or go."""
        limited = (self.control.state, len(self.control.limits))
        if now >= self._topics_until or limited != self._topics_of:
            offers = self.offers(now)
            self._topics = usefulness(self._site, self.control, offers, self._watch.loads(now))
            self._topics_of = limited
            self._topics_until = now + max(TOPICS_S, len(offers) / TOPICS_A_SECOND)
        return account(
            self._site,
            self.control,
            self._topics,
            self._contract,
            self._demand,
            self._name,
            now,
            slow=self._slow.status,
            capacities=dict(self._capacities.parts),
            votes=len(self._publishers.opinions),
            refused=dict(self.refused),
        )

    def _name(self, publisher: str) -> str:
        if publisher.startswith(ELSEWHERE):
            return "other domains"
        client = self._clients.get(publisher)
        return publisher if client is None else client.name or publisher

    def problems(self) -> list[str]:
        """Invariants that do not hold; for tests."""
        return [
            f"{topic} is protected and limited"
            for (topic, _) in self.control.limits
            if self._publishers.is_protected(topic)
        ]


def _stricter(contract: RateLimit | None, congestion: RateLimit) -> RateLimit:
    """Both limits in one: of messages the lower, of bytes the contract's."""
    if contract is None:
        return congestion
    if contract.msg_s is not None and congestion.msg_s is not None and contract.msg_s <= congestion.msg_s:
        return contract
    return RateLimit(
        msg_s=congestion.msg_s, bytes_s=contract.bytes_s, cause=congestion.cause, reason=congestion.reason
    )
