"""Clients that register, report, do as they are told after a while, and die."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from mangrove.control.stimuli import ClientRegistered, ClientSaid, Stimulus
from mangrove.model.agents.registration import (
    Assignment,
    ClientOrder,
    ClientRole,
    Leave,
    Migrated,
    Order,
    Registered,
    Registration,
    Report,
    Wish,
)
from mangrove.model.agents.registration import (
    Traffic as Carried,
)
from mangrove.model.agents.usefulness import LIMITS_VALID_S, LimitsOrdered, Vote
from mangrove.simulation.agents.virtual.brokers import Traffic
from mangrove.simulation.agents.virtual.world import World

ANSWER_S = 1.0
REPORT_S = 1.0

Tell = Callable[[str, Stimulus], None]
"""Tell the agent of a domain, over the management network."""


def useful(topic: str) -> float:
    """How useful all messages of a topic are: eleven kinds, by its name."""
    return zlib.crc32(topic.encode()) % 11 / 10


@dataclass(slots=True)
class Held:
    """A subscription, or a topic that is published."""

    key: str
    topic: str
    role: ClientRole
    domain: str
    broker: str = ""
    moving: bool = False
    since: float = 0.0
    """When it came to its broker."""
    epoch: int = 0
    """Of the decision that it follows: an order of an earlier one is left alone."""


@dataclass(frozen=True, slots=True)
class Limited:
    """What an agent has ordered of what is published."""

    epoch: int
    rates: dict[str, float]
    until: float


class VirtualClient:
    """One SDK client."""

    failing = 0.02
    """Part of the orders that it cannot carry out."""

    def __init__(self, name: str, world: World, traffic: Traffic, tell: Tell, held: list[Held]) -> None:
        self.name = name
        self.alive = True
        self.held = {each.key: each for each in held}
        self.obeyed: list[tuple[str, int]] = []
        """Domains and terms of the orders it carried out."""
        self.stale = 0
        self.known_to: dict[tuple[str, int], float] = {}
        """Since when the leader of a term is known to know it."""
        self._world = world
        self._traffic = traffic
        self._tell = tell
        self._sequence = 0
        self._terms: dict[str, int] = {}
        self.limits: dict[str, Limited] = {}
        """By domain."""
        self._unanswered: dict[str, int] = {}

    @property
    def domains(self) -> set[str]:
        """Where it holds something."""
        return {each.domain for each in self.held.values()}

    def start(self) -> None:
        """Register, and report from then on."""
        for domain in self.domains:
            self.register(domain)
        self._world.after(self._world.random.uniform(0.0, REPORT_S), self._report)

    def die(self) -> None:
        """It is gone, without a word."""
        self.alive = False
        for limited in self.limits.values():
            self._free(limited.rates, {})
        self.limits.clear()
        for each in self.held.values():
            self._let_go(each)

    def leave(self) -> None:
        """It is gone, and says so."""
        for domain in self.domains:
            self._say(domain, Leave(client=self.name, sequence=self._next()))
        self.die()

    def _let_go(self, held: Held) -> None:
        if held.role is ClientRole.SUBSCRIBER and held.broker:
            self._traffic.unsubscribe(held.broker, held.topic)

    def _next(self) -> int:
        self._sequence += 1
        return self._sequence

    def _say(self, domain: str, message: Report | Migrated | Leave) -> None:
        self._world.send(lambda: self._tell(domain, ClientSaid(message)))

    # -- registration ---------------------------------------------------------------------------------------

    def register(self, domain: str) -> None:
        """Say everything that it wants of a domain."""
        if not self.alive:
            return
        sequence = self._next()
        wishes = tuple(
            Wish(key=each.key, role=each.role, subject=each.topic, broker=each.broker)
            for each in self.held.values()
            if each.domain == domain
        )
        registration = Registration(
            client=self.name,
            sequence=sequence,
            public_key=b"",
            exchange_key=b"",
            origin=self.name,
            wishes=wishes,
        )
        self._unanswered[domain] = sequence
        self._world.send(lambda: self._tell(domain, ClientRegistered(registration, sequence)))
        self._world.after(ANSWER_S, lambda: self._again(domain, sequence))

    def _again(self, domain: str, sequence: int) -> None:
        if self._unanswered.get(domain) == sequence:
            self.register(domain)

    def answered(self, domain: str, token: int, answer: Registered) -> None:
        """The agent has answered."""
        if not self.alive or self._unanswered.get(domain) != token:
            return
        if answer.problem or answer.term < self._terms.get(domain, 0):
            return
        self._terms[domain] = answer.term
        self.known_to.setdefault((domain, answer.term), self._world.now)
        del self._unanswered[domain]
        for key, assignment in answer.assignments.items():
            held = self.held.get(key)
            if held is not None and held.domain == domain and not held.moving:
                self._served_at(held, assignment)

    def _served_at(self, held: Held, assignment: Assignment) -> None:
        if assignment.epoch < held.epoch:
            self.stale += 1
            return
        held.epoch = assignment.epoch
        if held.role is ClientRole.PUBLISHER or held.broker == assignment.broker:
            held.broker = assignment.broker
            return
        self._let_go(held)
        held.broker, held.since = assignment.broker, self._world.now
        self._traffic.joined_at[held.broker] = self._world.now
        self._traffic.subscribe(held.broker, held.topic)

    def announced(self, domain: str, term: int, spread_s: float) -> None:
        """Another agent leads."""
        if self.alive and domain in self.domains and term > self._terms.get(domain, 0):
            self._terms[domain] = term
            self._world.after(self._world.random.uniform(0.0, spread_s), lambda: self.register(domain))

    # -- reports and orders ---------------------------------------------------------------------------------

    def _report(self) -> None:
        if not self.alive:
            return
        self._forget_old_limits()
        for domain in self.domains:
            mine = [each for each in self.held.values() if each.domain == domain and each.broker]
            received = {each.key: self._carried(each) for each in mine if each.role is ClientRole.SUBSCRIBER}
            published = {
                each.topic: self._carried(each) for each in mine if each.role is ClientRole.PUBLISHER
            }
            report = Report(
                client=self.name,
                sequence=self._next(),
                span_s=REPORT_S,
                received=received,
                published=published,
                withheld=self._withheld(published),
                votes={key: self._vote(self.held[key].topic) for key in received},
                limits_epoch=self.limits[domain].epoch if domain in self.limits else 0,
            )
            self._say(domain, report)
        self._world.after(REPORT_S, self._report)

    def _carried(self, held: Held) -> Carried:
        rate, size = self._traffic.rates[held.topic], self._traffic.sizes[held.topic]
        return Carried(round(rate * REPORT_S), round(rate * size * REPORT_S))

    def _withheld(self, published: Iterable[str]) -> dict[str, Carried]:
        found: dict[str, Carried] = {}
        for topic in published:
            rest = self._traffic.offered[topic] - self._traffic.rates[topic]
            if rest > 0.0:
                size_bytes = round(rest * self._traffic.sizes[topic] * REPORT_S)
                found[topic] = Carried(round(rest * REPORT_S), size_bytes)
        return found

    def _vote(self, topic: str) -> dict[str, Vote]:
        """A topic is as useful as its name says."""
        messages = round(self._traffic.rates[topic] * REPORT_S)
        return {self._traffic.publishers[topic]: Vote(messages, useful(topic))} if messages else {}

    def _limited(self, domain: str, order: LimitsOrdered) -> None:
        before = self.limits.get(domain)
        if order.term != self._terms.get(domain) or (before is not None and order.epoch < before.epoch):
            self.stale += 1
            return
        rates = {topic: limit.msg_s for topic, limit in order.limits.items() if limit.msg_s is not None}
        self._free({} if before is None else before.rates, rates)
        self.limits[domain] = Limited(order.epoch, rates, self._world.now + LIMITS_VALID_S)

    def _forget_old_limits(self) -> None:
        for domain in [name for name, limited in self.limits.items() if self._world.now >= limited.until]:
            self._free(self.limits.pop(domain).rates, {})

    def _free(self, before: dict[str, float], rates: dict[str, float]) -> None:
        for topic in {*before, *rates}:
            self._traffic.limit(topic, rates.get(topic))

    def ordered(self, domain: str, order: ClientOrder) -> None:
        """The agent has told it something."""
        if not self.alive:
            return
        if order.term < self._terms.get(domain, 0):
            self.stale += 1
            return
        if isinstance(order, LimitsOrdered):
            self._limited(domain, order)
            return
        self._terms[domain] = order.term
        if not isinstance(order, Order):
            self.register(domain)
            return
        held = self.held.get(order.key)
        if held is None or held.moving or held.domain != domain:
            return
        if order.to.epoch < held.epoch:
            self.stale += 1
            return
        held.epoch = order.to.epoch
        if held.broker == order.to.broker:
            self._confirm(domain, order)
            return
        self.obeyed.append((domain, order.term))
        held.moving = True
        if self._world.random.random() < self.failing:
            self._world.after(0.5, lambda: self._failed(domain, order, held))
            return
        if held.role is ClientRole.SUBSCRIBER:
            self._traffic.subscribe(order.to.broker, held.topic)
        self._world.after(self._world.random.uniform(0.05, 1.5), lambda: self._moved(domain, order, held))

    def _failed(self, domain: str, order: Order, held: Held) -> None:
        held.moving = False
        if self.alive:
            self._confirm(domain, order, "it cannot be reached", held.broker)

    def _moved(self, domain: str, order: Order, held: Held) -> None:
        held.moving = False
        if not self.alive:
            if held.role is ClientRole.SUBSCRIBER:
                self._traffic.unsubscribe(order.to.broker, held.topic)
            return
        self._let_go(held)
        held.broker, held.since = order.to.broker, self._world.now
        self._confirm(domain, order)
        if order.domain:
            held.domain, held.epoch = order.domain, 0
            if held.role is ClientRole.PUBLISHER:
                self._traffic.publish_in(held.topic, held.domain)
            self.register(order.domain)
            self.register(domain)

    def _confirm(self, domain: str, order: Order, problem: str = "", broker: str = "") -> None:
        message = Migrated(
            client=self.name,
            sequence=self._next(),
            session=order.session,
            key=order.key,
            broker=broker or order.to.broker,
            problem=problem,
        )
        self._say(domain, message)
