"""Who publishes and subscribes in a surge, at what rates, and which topics burst: drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from mangrove.model.balancing import Balancing
from mangrove.model.federation import Domain, Edge, Federation, Link
from mangrove.model.topics import Contract, TopicRules

HOME = "harbour"
NEIGHBOUR = "inland"
SHORTEST_DEADLINE_S = 1.0
LONGEST_DEADLINE_S = 50.0
BURST_FACTOR = 1.5
BASE_PORT = 7000


@dataclass(frozen=True, slots=True)
class SurgeTopic:
    """A topic, its rate at rest, and the delay that its subscribers can bear."""

    name: str
    rate_msg_s: float
    deadline_s: float


@dataclass(frozen=True, slots=True)
class SurgePlan:
    """Everything that a surge is made of."""

    topics: tuple[SurgeTopic, ...]
    subscribers: int
    edges: int
    capacity_msg_s: float
    payload_bytes: int
    neighbour: bool
    """Whether a second domain stands by to take load; then the first has one edge that must get help."""
    seed: int

    @property
    def rate_msg_s(self) -> float:
        """All messages a second, at rest."""
        return sum(topic.rate_msg_s for topic in self.topics)

    @property
    def rates(self) -> dict[str, float]:
        """Of each topic, at rest."""
        return {topic.name: topic.rate_msg_s for topic in self.topics}

    def subscribers_of(self, index: int) -> int:
        """How many subscribers a topic has."""
        share, more = divmod(self.subscribers, len(self.topics))
        return share + (index < more)


def draw_plan(
    *,
    seed: int,
    topics: int = 100,
    subscribers: int = 200,
    edges: int = 4,
    rate_msg_s: float = 5000.0,
    utilisation: float = 0.78,
    payload_bytes: int = 200,
    neighbour: bool = False,
) -> SurgePlan:
    """Draw rates and delay requirements; the edges' capacity makes their mean `utilisation` at rest."""
    rng = random.Random(seed)
    weights = [rng.uniform(0.4, 1.6) for _ in range(topics)]
    scale = rate_msg_s / sum(weights)
    drawn = tuple(
        SurgeTopic(
            name=f"surge.{number:03d}",
            rate_msg_s=weight * scale,
            deadline_s=rng.uniform(SHORTEST_DEADLINE_S, LONGEST_DEADLINE_S),
        )
        for number, weight in enumerate(weights)
    )
    capacity = rate_msg_s / edges / utilisation
    return SurgePlan(drawn, subscribers, edges, capacity, payload_bytes, neighbour, seed)


def federation_of(plan: SurgePlan, method: str = "drd") -> Federation:
    """A domain with a head and its edges; with a neighbour, a linked domain that accepts load from it."""
    contracts = tuple(
        Contract(match=topic.name, deadline_ms=1000.0 * topic.deadline_s) for topic in plan.topics
    )
    edge = Edge(capacity=plan.capacity_msg_s)
    home = Domain(name=HOME, base_port=BASE_PORT, edges=(edge,) * plan.edges)
    domains = {HOME: home}
    links: tuple[Link, ...] = ()
    if plan.neighbour:
        domains[NEIGHBOUR] = Domain(
            name=NEIGHBOUR, base_port=BASE_PORT + 100, edges=(edge,) * plan.edges, accept_load_from=(HOME,)
        )
        links = (Link(between=(HOME, NEIGHBOUR), delay_ms=5.0),)
    return Federation(
        name="surge",
        domains=domains,
        links=links,
        topics=TopicRules(contracts),
        balancing=Balancing(method=method),
    )


def burst_on(
    rates: Mapping[str, float],
    serves: Mapping[str, tuple[str, ...]],
    edge: str,
    capacity_msg_s: float,
    *,
    seed: int,
    to_utilisation: float = 1.12,
    factor: float = BURST_FACTOR,
) -> dict[str, float]:
    """Factors for topics that `edge` serves, enough of them to bring it to this utilisation.

    `serves` tells which topics each edge serves; only those that have a rate may burst.
    """
    mine = [topic for topic in serves.get(edge, ()) if topic in rates]
    rng = random.Random(seed)
    rng.shuffle(mine)
    load = sum(rates[topic] for topic in mine)
    factors: dict[str, float] = {}
    for topic in mine:
        if load >= to_utilisation * capacity_msg_s:
            break
        factors[topic] = factor
        load += (factor - 1.0) * rates[topic]
    return factors
