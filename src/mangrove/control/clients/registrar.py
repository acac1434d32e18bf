"""Answers registrations: where each wish is served, by which record of the directory.

A topic has one edge (ePEER §4.4.2, rule 1), new topics are placed by a policy of distribution. For a while
after an agent has begun to lead, a client that says where it is served is believed, so that a change of
leaders moves nobody.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping

import msgspec

from mangrove.control.clients.placements import Served
from mangrove.control.clients.registry import Client, Clients
from mangrove.control.directory.directory import Directory
from mangrove.control.distribution import Candidate, Distributor, Newcomer, Place
from mangrove.control.events.happenings import TopicPlaced
from mangrove.control.mirrors.mirrors import Mirrors
from mangrove.control.site import Site
from mangrove.model.agents.directory import DirectoryRecord
from mangrove.model.agents.load import BrokerLoad
from mangrove.model.agents.registration import LEASE_S, Assignment, ClientRole, Registered, Registration
from mangrove.model.events.event_log import EventId, EventLog

SPREAD_S = 2.0
"""Clients register with a new leader within this time."""
BELIEVED_S = LEASE_S + SPREAD_S
MAX_RECORDS_AN_ANSWER = 2000

Loads = Callable[[float], Mapping[str, BrokerLoad]]
Target = Callable[[str], str]
"""Where the subscribers of a topic are to go, if something was decided about them."""


class Outcome(msgspec.Struct, frozen=True):
    """What a registration led to."""

    answer: Registered
    placed: tuple[Served, ...] = ()
    """New wishes, with their brokers."""
    relocated: tuple[Served, ...] = ()
    """Known ones whose client says that they are served elsewhere than was known."""
    ended: tuple[Served, ...] = ()


class Registrar:
    """Places what clients wish for, and keeps the records of the directory true to it."""

    def __init__(
        self,
        site: Site,
        clients: Clients,
        directory: Directory,
        distributor: Distributor,
        log: EventLog,
        *,
        loads: Loads,
        target: Target,
        expected: Target,
        ordered: Callable[[Served], bool],
        mirrors: Mirrors,
        clock_shift_s: float,
    ) -> None:
        """`target` is where a session of this domain moves a topic, `expected` where one of another does.

        What is `ordered` to move is assigned nothing: the order says where it goes.
        """
        self._site = site
        self._clients = clients
        self._directory = directory
        self._distributor = distributor
        self._log = log
        self._loads = loads
        self._target = target
        self._expected = expected
        self._ordered = ordered
        self._mirrors = mirrors
        self._clock_shift_s = clock_shift_s
        self._topics_at: Counter[str] = Counter()
        self._began = -math.inf
        self._term = 0
        self._unseen: set[str] = set()
        """Topics of records that the store had, for which no client has registered yet."""
        self._led_by: EventId | None = None

    def begin(self, term: int, now: float, led_by: EventId) -> None:
        """A term begins: records of before stand until clients had time to register."""
        self._term, self._began, self._led_by = term, now, led_by
        self._unseen = set(self._directory)
        self._topics_at = Counter(edge for topic in self._directory for edge in self._directory.edges(topic))

    def believes(self, now: float) -> bool:
        """Whether clients may still be those of an earlier leader."""
        return now < self._began + BELIEVED_S

    def timer(self) -> float:
        """When records that nobody has confirmed are withdrawn."""
        return self._began + BELIEVED_S if self._unseen else math.inf

    def handle_timer(self, now: float) -> None:
        """Withdraw the records of topics that nobody came back for."""
        if self._unseen and not self.believes(now):
            unseen, self._unseen = self._unseen, set()
            for topic in unseen:
                self.follow(topic, now)

    # -- registrations --------------------------------------------------------------------------------------

    def register(self, registration: Registration, now: float) -> Outcome:
        """Take a registration in, and say what becomes of each wish."""
        upsert = self._clients.register(registration, now)
        client = upsert.client
        if client is None:
            return Outcome(Registered(term=self._term, problem=upsert.problem))
        placed: list[Served] = []
        relocated: list[Served] = []
        for served in upsert.ended:
            self.follow(served.topic, now)
        for served in upsert.added:
            self._place(client, served, now)
            placed.append(served)
        for served in upsert.kept:
            if self._said(served) not in ("", served.broker):
                self._clients.place(served, self._said(served))
                self.follow(served.topic, now)
                relocated.append(served)
        answered = [*placed, *upsert.kept]
        answer = Registered(
            term=self._term,
            assignments={
                served.wish.key: assignment
                for served in answered
                if not self._ordered(served) and (assignment := self._assignment(served)) is not None
            },
            refused=dict(upsert.refused),
            records=self._records(answered),
        )
        return Outcome(answer, tuple(placed), tuple(relocated), upsert.ended)

    def leave(self, client: str, now: float) -> list[Served]:
        """A client is gone; its wishes."""
        gone = self._clients.leave(client)
        for topic in {served.topic for served in gone}:
            self.follow(topic, now)
        return gone

    def relocate(self, served: Served, broker: str, now: float, decision: EventId | None = None) -> None:
        """A client says that it has moved a wish."""
        self._clients.place(served, broker)
        self.follow(served.topic, now, decision)

    def is_new(self, served: Served, now: float) -> bool:
        """Whether a wish that was just taken in is no old one of which a new leader hears."""
        return not (self._said(served) and self.believes(now))

    def _said(self, served: Served) -> str:
        """Where a client says that a wish is served, if that can be: a dead broker serves nobody."""
        broker = served.wish.broker
        if broker in self._site.dead:
            return ""
        if self._site.has(broker):
            return broker
        return broker if self._site.of_neighbour(broker) else ""

    def _place(self, client: Client, served: Served, now: float) -> None:
        said = self._said(served)
        elsewhere = bool(said) and not self._site.has(said)
        if served.wish.role is ClientRole.PUBLISHER:
            default = self._directory.publish_at(served.topic) or self._site.acting_head
            self._clients.place(served, said or default)
            if self._mirrors.mode(served.topic):
                self.follow(served.topic, now, self._led_by)
            return
        if elsewhere or (said and self.believes(now)):
            self._clients.place(served, said)
            self.follow(served.topic, now, self._led_by)
            return
        loads = self._loads(now)
        newcomer = Newcomer(
            topic=served.topic,
            serving=self._directory.edges(served.topic),
            target=self._target(served.topic) or self._expected(served.topic),
            rtt_ms=client.rtt_ms,
        )
        place = self._distributor.assign(newcomer, self._candidates(loads), now)
        decision = None
        if place.broker not in newcomer.serving and place.broker != newcomer.target:
            decision = self._placed(served.topic, place, loads, now)
        self._clients.place(served, place.broker)
        self.follow(served.topic, now, decision)

    def _candidates(self, loads: Mapping[str, BrokerLoad]) -> list[Candidate]:
        return [
            Candidate(loads[name], self._topics_at[name] + self._mirrors.at(name))
            for name in self._site.serving
        ]

    def _placed(self, topic: str, place: Place, loads: Mapping[str, BrokerLoad], now: float) -> EventId:
        return self._log.note(
            TopicPlaced(
                topic=topic,
                broker=place.broker,
                policy=self._site.balancing.distribution,
                candidates={name: loads[name].headroom for name in self._site.serving},
                why=place.why,
                crowded=place.crowded,
            ),
            now,
        )

    def _assignment(self, served: Served) -> Assignment | None:
        """Where to go; nothing is said of what is served in another domain."""
        broker = served.broker
        if served.wish.role is ClientRole.PUBLISHER and self._site.has(broker):
            broker = self._directory.publish_at(served.topic) or self._site.acting_head
        if not self._site.has(broker):
            return None
        return Assignment(
            broker=broker, url=self._site.url(broker), epoch=self._directory.epoch(served.topic)
        )

    def _records(self, answered: list[Served]) -> tuple[DirectoryRecord, ...]:
        """Those of the topics, and those of other topics whose mirrors a publisher must know of."""
        topics = dict.fromkeys(served.topic for served in answered[:MAX_RECORDS_AN_ANSWER])
        for served in answered:
            if len(topics) >= MAX_RECORDS_AN_ANSWER:
                break
            if served.wish.role is ClientRole.PUBLISHER:
                topics |= dict.fromkeys(self._mirrors.over(served.topic))
        found = map(self._directory.get, topics)
        return tuple(record for record in found if record is not None)

    def home(self, topic: str, now: float) -> str:
        """The broker that serves a topic here, or would if somebody asked for it."""
        return next(iter(self._directory.edges(topic)), "") or self.distribute(topic, now)

    # -- brokers that died ----------------------------------------------------------------------------------

    def distribute(self, topic: str, now: float) -> str:
        """Where a topic would be put that nobody serves yet."""
        loads = self._loads(now)
        return self._distributor.assign(Newcomer(topic=topic), self._candidates(loads), now).broker

    def abandon(
        self, topic: str, dead: frozenset[str], place: str, now: float, decision: EventId
    ) -> list[Served]:
        """A topic leaves brokers that are dead; who was there is taken to be at `place` until it says more.

        Its record does not name them any more, also if nobody has come back for it yet. An empty `place`
        leaves its subscribers where they are.
        """
        moved = [
            served
            for broker in dead
            for served in self._clients.placements.members(ClientRole.SUBSCRIBER, topic, broker)
        ]
        for served in moved:
            self._clients.place(served, place)
        if self._directory.publish_at(topic) in dead:
            since = now + self._clock_shift_s
            self._directory.decide(topic, publish_at="", decision=decision, since=since)
        self.follow(topic, now, decision)
        before = self._directory.edges(topic)
        if not dead.isdisjoint(before):
            edges = dict.fromkeys(place if edge in dead else edge for edge in before)
            self._set_edges(topic, tuple(edges), now, decision)
        return moved

    def abandon_publishers(self, dead: frozenset[str]) -> list[Served]:
        """Who published at brokers that are dead is taken to publish where the others do."""
        placements = self._clients.placements
        moved: list[Served] = []
        for topic in list(placements.topics(ClientRole.PUBLISHER)):
            for broker in dead:
                for served in placements.members(ClientRole.PUBLISHER, topic, broker):
                    place = self._directory.publish_at(topic) or self._site.acting_head
                    self._clients.place(served, place)
                    moved.append(served)
        return moved

    # -- the directory --------------------------------------------------------------------------------------

    def redirect(self, topic: str, now: float, decision: EventId | None) -> None:
        """A session leads a topic elsewhere, or has ended: what was said of it before is outdated."""
        self._directory.renew(topic, decision or "", now + self._clock_shift_s)
        self.follow(topic, now, decision)

    def follow(self, topic: str, now: float, decision: EventId | None = None) -> None:
        """Make a topic's record say where its subscribers are, or are being moved to.

        A mirrored topic has a record also when it is only published here: its publishers must know.
        """
        before = self._directory.edges(topic)
        serving = self._clients.placements.brokers(ClientRole.SUBSCRIBER, topic)
        here = [broker for broker in serving if self._site.has(broker)]
        if topic in self._unseen:
            if here:
                self._unseen.discard(topic)
            elif self.believes(now):
                return
        target = self._target(topic)
        first = [target] if self._site.has(target) and target not in self._site.dead else []
        ordered = dict.fromkeys([*first, *(edge for edge in before if edge in serving), *here])
        edges = tuple(ordered)
        if edges != before or self._mirrors.mode(topic):
            self._set_edges(topic, edges, now, decision)

    def _set_edges(self, topic: str, edges: tuple[str, ...], now: float, decision: EventId | None) -> None:
        known = self._directory.get(topic)
        self._topics_at.subtract(() if known is None else known.edges)
        self._topics_at.update(edges)
        self._directory.decide(
            topic,
            edges=edges,
            decision=decision or ("" if known is None else known.decision),
            since=now + self._clock_shift_s,
        )
