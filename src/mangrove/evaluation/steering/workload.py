"""A federation on a map, publishers and subscribers, drawn from a seed."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from random import Random

from mangrove.model.balancing import Balancing
from mangrove.model.federation import Domain, Edge, Federation, Link

KM_A_MS = 200.0
"""Light in fibre."""
LAST_MILE_MS = 1.0
"""Of every round trip between a client and a broker."""
HEAD_CAPACITY = 100_000.0


@dataclass(frozen=True, slots=True)
class Setting:
    """What is drawn, and from which ranges."""

    domains: int = 8
    edges: int = 2
    side_km: float = 2000.0
    topics: int = 60
    rate_msg_s: tuple[float, float] = (5.0, 40.0)
    subscribers: int = 240
    abroad: float = 0.5
    """Part of the subscribers that register elsewhere than in the domain that is nearest to them: they are
    where what they ask for is published."""
    near: float = 0.3
    """Part of what is subscribed to that is published in the subscriber's own domain."""
    capacity_msg_s: float = 600.0
    """Of each edge."""

    def changed(self, **values: object) -> Setting:
        """The same with some values changed."""
        return replace(self, **values)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Topic:
    """What one domain publishes."""

    name: str
    domain: str
    rate: float


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A client: where it registers, where it is, what it wants, and when it comes."""

    name: str
    home: str
    place: str
    """The domain that is nearest to it."""
    topic: str
    at_s: float


@dataclass(frozen=True, slots=True)
class Workload:
    """Everything that does not depend on whether subscribers are led elsewhere."""

    seed: int
    setting: Setting
    places: dict[str, tuple[float, float]]
    links: tuple[tuple[str, str], ...]
    topics: tuple[Topic, ...]
    subscribers: tuple[Subscriber, ...]

    def federation(self, *, steer: bool) -> Federation:
        """As a federation file would say it: all linked domains take each other's clients."""
        edge = Edge(capacity=self.setting.capacity_msg_s)
        linked: dict[str, list[str]] = {name: [] for name in self.places}
        for first, second in self.links:
            linked[first].append(second)
            linked[second].append(first)
        return Federation(
            name="map",
            domains={
                name: Domain(
                    name=name,
                    base_port=4000 + 100 * number,
                    head=Edge(capacity=HEAD_CAPACITY),
                    edges=(edge,) * self.setting.edges,
                    accept_load_from=tuple(linked[name]),
                    steer=steer,
                )
                for number, name in enumerate(self.places)
            },
            links=tuple(Link(between=pair, delay_ms=self.way_ms(*pair)) for pair in self.links),
            balancing=Balancing(),
        )

    def way_ms(self, first: str, second: str) -> float:
        """How long light needs from one place to the other."""
        return max(math.dist(self.places[first], self.places[second]) / KM_A_MS, 0.01)

    def round_trip_ms(self, place: str, domain: str) -> float:
        """Between a client at one place and a broker of a domain."""
        there = 0.0 if place == domain else self.way_ms(place, domain)
        return LAST_MILE_MS + 2 * there


def draw_workload(seed: int, setting: Setting) -> Workload:
    """The workload of a seed."""
    draw = Random(f"steering {seed}")
    names = [f"d{number}" for number in range(setting.domains)]
    places = {name: (draw.uniform(0, setting.side_km), draw.uniform(0, setting.side_km)) for name in names}
    topics = tuple(
        Topic(f"{home}.t{number}", home, round(draw.uniform(*setting.rate_msg_s)))
        for number in range(setting.topics)
        for home in (draw.choice(names),)
    )
    by_domain = {name: [topic for topic in topics if topic.domain == name] for name in names}
    subscribers = []
    for number in range(setting.subscribers):
        home = draw.choice(names)
        own = by_domain[home] if draw.random() < setting.near else []
        topic = draw.choice(own or topics)
        place = topic.domain if draw.random() < setting.abroad else home
        subscribers.append(Subscriber(f"c{number}", home, place, topic.name, draw.uniform(5.0, 25.0)))
    return Workload(seed, setting, places, _links(names, places), topics, tuple(subscribers))


def _links(names: list[str], places: dict[str, tuple[float, float]]) -> tuple[tuple[str, str], ...]:
    """Each domain with its two nearest, and what it takes to join the rest: short links first."""
    pairs = sorted(
        (math.dist(places[first], places[second]), first, second)
        for index, first in enumerate(names)
        for second in names[index + 1 :]
    )
    chosen: set[tuple[str, str]] = set()
    for name in names:
        near = [(first, second) for _, first, second in pairs if name in (first, second)]
        chosen.update(near[:2])
    group = {name: name for name in names}
    for pair in (*sorted(chosen), *((first, second) for _, first, second in pairs)):
        if group[pair[0]] != group[pair[1]]:
            chosen.add(pair)
            old, new = group[pair[0]], group[pair[1]]
            group = {name: new if each == old else each for name, each in group.items()}
    return tuple(sorted(chosen))
