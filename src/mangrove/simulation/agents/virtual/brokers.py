"""Brokers whose counters follow from who subscribes where, and at which rates topics are published."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

from mangrove.model.agents.load import BrokerSample
from mangrove.simulation.agents.virtual.world import World


class Traffic:
    """Rates of topics, the domains of their publishers, and where their subscribers are."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.rates: dict[str, float] = {}
        """What is said of each topic in a second."""
        self.offered: dict[str, float] = {}
        """What would be said without limits."""
        self.offered_at = 0.0
        """When that, or what brokers can carry, last changed."""
        self._limits: dict[str, float] = {}
        self.sizes: dict[str, float] = {}
        self.published_in: dict[str, str] = {}
        self.publishers: dict[str, str] = {}
        """The client that publishes each topic."""
        self.brokers: dict[str, VirtualBroker] = {}
        self.edges_of: dict[str, list[str]] = {}
        self.changed_at = 0.0
        """When a rate last changed."""
        self.topic_changed_at: dict[str, float] = {}
        self.joined_at: dict[str, float] = {}
        """When a subscriber last came to a broker that no session had moved there."""

    def set_rate(self, topic: str, rate: float) -> None:
        """A topic's publisher would say more or less from now on."""
        self.offered[topic] = rate
        self.offered_at = self._world.now
        self._follow(topic)

    def limit(self, topic: str, rate: float | None) -> None:
        """A topic's publisher keeps to a limit, or to none any more."""
        if rate is None:
            self._limits.pop(topic, None)
        else:
            self._limits[topic] = rate
        self._follow(topic)

    def _follow(self, topic: str) -> None:
        rate = min(self.offered[topic], self._limits.get(topic, math.inf))
        if rate != self.rates.get(topic):
            self.settle()
            self.rates[topic] = rate
            self.changed_at = self.topic_changed_at[topic] = self._world.now

    def settle(self) -> None:
        """Count what passed until now, before something changes."""
        for broker in self.brokers.values():
            broker.advance(self._world.now)

    def subscribe(self, broker: str, topic: str) -> None:
        """One more subscriber of a topic at a broker."""
        self.settle()
        self.brokers[broker].subscribers[topic] += 1

    def unsubscribe(self, broker: str, topic: str) -> None:
        """One less."""
        self.settle()
        subscribers = self.brokers[broker].subscribers
        subscribers[topic] -= 1
        if not subscribers[topic]:
            del subscribers[topic]

    def publish_in(self, topic: str, domain: str) -> None:
        """A topic's publishers are in another domain from now on."""
        self.settle()
        self.published_in[topic] = domain

    def wanted_in(self, topic: str, domain: str) -> int:
        """At how many edges of a domain a topic has subscribers."""
        return sum(topic in self.brokers[edge].subscribers for edge in self.edges_of[domain])

    def wanted_outside(self, topic: str) -> bool:
        """Whether a topic has subscribers in other domains than its publishers'."""
        home = self.published_in[topic]
        return any(self.wanted_in(topic, domain) for domain in self.edges_of if domain != home)


class VirtualBroker:
    """A head or an edge."""

    def __init__(self, name: str, domain: str, head: bool, capacity: float, traffic: Traffic) -> None:
        self.name = name
        self.domain = domain
        self.head = head
        self.capacity = capacity
        self.part = 1.0
        """Of its capacity that is left."""
        self.reachable = True
        self.subscribers: Counter[str] = Counter()
        self._traffic = traffic
        self._at = 0.0
        self._totals = [0.0, 0.0, 0.0, 0.0]

    def rates(self, said: Mapping[str, float] | None = None) -> tuple[float, float, float, float]:
        """Messages and bytes in a second, in and out; of what is said, or of something else."""
        traffic = self._traffic
        said = traffic.rates if said is None else said
        messages_in = bytes_in = messages_out = bytes_out = 0.0
        topics = traffic.rates if self.head else self.subscribers
        for topic in topics:
            rate, size = said[topic], traffic.sizes[topic]
            if self.head:
                edges = traffic.wanted_in(topic, self.domain)
                here = traffic.published_in[topic] == self.domain
                came = 1 if here or edges else 0
                left = edges + (1 if here and traffic.wanted_outside(topic) else 0)
            else:
                came, left = 1, self.subscribers[topic]
            messages_in += came * rate
            bytes_in += came * rate * size
            messages_out += left * rate
            bytes_out += left * rate * size
        return messages_in, messages_out, bytes_in, bytes_out

    @property
    def utilisation(self) -> float:
        """Of its matching capacity."""
        return self.rates()[0] / (self.capacity * self.part)

    def utilisation_of(self, said: Mapping[str, float]) -> float:
        """What it would be if so much were said of each topic."""
        return self.rates(said)[0] / (self.capacity * self.part)

    def advance(self, now: float) -> None:
        """Count what passed since the last call."""
        if now > self._at:
            for index, rate in enumerate(self.rates()):
                self._totals[index] += rate * (now - self._at)
            self._at = now

    def sample(self, now: float) -> BrokerSample:
        """What it tells an agent."""
        self.advance(now)
        messages_in, messages_out, bytes_in, bytes_out = (int(total) for total in self._totals)
        return BrokerSample(
            broker=self.name,
            started="once",
            messages_in=messages_in,
            messages_out=messages_out,
            bytes_in=bytes_in,
            bytes_out=bytes_out,
        )
