"""What happens in one schedule, made from its seed: domains, topics, clients, bursts and faults."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum

from mangrove.model.balancing import Balancing
from mangrove.model.congestion.parameters import Congestion
from mangrove.model.federation import Domain, Edge, Federation, Link
from mangrove.model.topics import Contract, Scope, TopicRules

DEADLINES_MS = (100.0, 1000.0, 10_000.0)
HOME = "home"
"""Topics that begin so never leave their domain."""
START_S = 6.0
CUT_SHARE = 0.35
HEALED_S = 45.0
END_S = 75.0
BALANCING = Balancing(migration_timeout_s=6.0)
METHODS = ("drd", "drd", "drd", "drd-optimal", "peer", "peer-drd")


class FaultKind(StrEnum):
    """What goes wrong."""

    AGENT_DIES = "the agent is killed"
    AGENT_DIES_AT_STEP = "the agent is killed in the middle of a session"
    STORE_AWAY = "the store is away"
    CLIENT_DIES = "a client dies"
    CLIENT_LEAVES = "a client leaves"
    BROKER_SILENT = "a broker does not answer"
    CUT_OFF = "no message of the management network arrives"


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong, and when it is over."""

    kind: FaultKind
    domain: str
    start_s: float
    end_s: float
    number: int
    """Which client or broker, or after how many instructions."""

    def __str__(self) -> str:
        return f"{self.start_s:.1f}–{self.end_s:.1f} s in {self.domain}: {self.kind.value} ({self.number})"


@dataclass(frozen=True, slots=True)
class Burst:
    """A topic is published faster for a while."""

    topic: str
    start_s: float
    end_s: float
    factor: float


@dataclass(frozen=True, slots=True)
class Cut:
    """A broker can carry only a part of what it could, for a while."""

    domain: str
    broker: str
    start_s: float
    end_s: float
    part: float

    def __str__(self) -> str:
        return f"{self.start_s:.1f}–{self.end_s:.1f} s: {self.broker} carries {self.part:.0%}"


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic: who publishes it where, and who subscribes."""

    name: str
    domain: str
    rate: float
    size_bytes: float
    publisher: int
    subscribers: tuple[tuple[str, int], ...]
    """Domains and numbers of clients."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """All of it."""

    seed: int
    federation: Federation
    capacities: dict[str, tuple[float, ...]]
    """Of the head and the edges, by domain."""
    clients: dict[str, int]
    topics: tuple[Topic, ...]
    bursts: tuple[Burst, ...]
    faults: tuple[Fault, ...]
    cuts: tuple[Cut, ...]
    loss_ratio: float
    late_ratio: float


def make_schedule(seed: int) -> Schedule:
    """The schedule of a seed."""
    draw = random.Random(seed)
    names = ["oslo"] if draw.random() < 0.6 else ["oslo", "bonn"]
    method = draw.choice(METHODS)
    capacities = {
        name: (
            draw.choice((1200.0, 100_000.0, 100_000.0)),
            *(draw.choice((400.0, 500.0, 600.0)) for _ in range(draw.randint(2, 4))),
        )
        for name in names
    }
    federation = _federation(names, capacities, method, draw)
    clients = {name: draw.randint(5, 9) for name in names}
    topics = tuple(topic for name in names for topic in _topics(name, names, capacities[name], clients, draw))
    return Schedule(
        seed,
        federation,
        capacities,
        clients,
        topics,
        tuple(_bursts(topics, draw)),
        tuple(_faults(names, draw)),
        tuple(_cuts(seed, capacities)),
        draw.choice((0.0, 0.02, 0.1, 0.25)),
        draw.choice((0.0, 0.0, 0.05, 0.2)),
    )


def _federation(
    names: list[str], capacities: dict[str, tuple[float, ...]], method: str, draw: random.Random
) -> Federation:
    takes = draw.random() < 0.8
    domains = {
        name: Domain(
            name=name,
            base_port=4000 + 100 * index,
            head=Edge(capacity=capacities[name][0]),
            edges=tuple(Edge(capacity=capacity) for capacity in capacities[name][1:]),
            accept_load_from=tuple(other for other in names if other != name) if takes else (),
        )
        for index, name in enumerate(names)
    }
    contracts = [Contract(match=f"{HOME}.>", scope=Scope.DOMAIN, deadline_ms=DEADLINES_MS[0])]
    contracts += [Contract(match=f"d{deadline:g}.>", deadline_ms=deadline) for deadline in DEADLINES_MS]
    balancing = Balancing(migration_timeout_s=BALANCING.migration_timeout_s, method=method)
    return Federation(
        name="virtual",
        domains=domains,
        links=(Link(between=("oslo", "bonn"), delay_ms=5.0),) if len(names) == 2 else (),
        topics=TopicRules(tuple(contracts)),
        balancing=balancing,
        congestion=Congestion(protect_deadline_ms=DEADLINES_MS[0]),
    )


def _topics(
    name: str, names: list[str], capacities: tuple[float, ...], clients: dict[str, int], draw: random.Random
) -> list[Topic]:
    wanted = sum(capacities[1:]) * draw.uniform(0.5, 0.75)
    topics: list[Topic] = []
    while wanted > 0:
        kind = draw.choice((HOME, *(f"d{deadline:g}" for deadline in DEADLINES_MS)))
        rate = draw.choice((20.0, 40.0, 60.0, 80.0))
        local = kind == HOME or draw.random() < 0.8
        where = [name] if local else draw.sample(names, draw.randint(1, len(names)))
        subscribers = tuple(
            (domain, number)
            for domain in where
            for number in draw.sample(range(clients[domain]), draw.randint(1, 2))
        )
        topics.append(
            Topic(
                f"{kind}.{name}.{len(topics)}", name, rate, 100.0, draw.randrange(clients[name]), subscribers
            )
        )
        wanted -= rate
    return topics


def _bursts(topics: tuple[Topic, ...], draw: random.Random) -> list[Burst]:
    bursts: list[Burst] = []
    for first_s, last_s in ((10.0, 14.0), (22.0, 30.0))[: draw.randint(1, 2)]:
        start_s = draw.uniform(first_s, last_s)
        factor = draw.choice((1.5, 2.0, 3.0))
        hit = draw.sample(topics, draw.randint(1, max(1, len(topics) // 2)))
        bursts += [Burst(topic.name, start_s, HEALED_S, factor) for topic in hit]
    return bursts


def _faults(names: list[str], draw: random.Random) -> list[Fault]:
    faults: list[Fault] = []
    for _ in range(draw.choice((0, 1, 1, 2, 3))):
        kind = draw.choice(list(FaultKind))
        start_s = draw.uniform(START_S, HEALED_S - 8.0)
        end_s = min(HEALED_S, start_s + draw.uniform(0.5, 8.0))
        faults.append(Fault(kind, draw.choice(names), start_s, end_s, draw.randrange(40)))
    return faults


def _cuts(seed: int, capacities: dict[str, tuple[float, ...]]) -> list[Cut]:
    """Damage, in a third of the schedules; drawn apart, so that it changes nothing else of them."""
    draw = random.Random(f"cuts of {seed}")
    if draw.random() >= CUT_SHARE:
        return []
    domain = draw.choice(sorted(capacities))
    edges = [f"{domain}-edge{number}" for number in range(1, len(capacities[domain]))]
    start_s = draw.uniform(12.0, 20.0)
    end_s = draw.uniform(start_s + 12.0, HEALED_S)
    cut = draw.sample(edges, draw.randint(1, len(edges)))
    return [Cut(domain, edge, start_s, end_s, draw.choice((0.2, 0.3, 0.4))) for edge in cut]
