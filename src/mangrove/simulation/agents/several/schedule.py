"""What happens in one schedule of several agents, made from its seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum

from mangrove.model.balancing import Balancing
from mangrove.model.federation import Domain, Edge, Federation, Host

DOMAIN = "oslo"
START_S = 3.0
HEALED_S = 20.0
END_S = 30.0
SAMPLE_S = 4.0
"""Loads are of no account here; they are sampled seldom, which is quick to play."""


class SeveralFault(StrEnum):
    """What goes wrong."""

    DIES = "an agent is killed"
    LEADER_DIES = "the leader is killed"
    STALLS = "an agent stalls"
    LEADER_STALLS = "the leader stalls"
    CUT_OFF = "an agent is cut off"
    LEADER_CUT_OFF = "the leader is cut off"
    DEAF = "an agent hears nothing of the others"
    STORE_AWAY = "the store has no majority"
    HAND_OVER = "an operator has the leader hand over"
    BROKER_DIES = "a broker dies"


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong, and when it is over."""

    kind: SeveralFault
    start_s: float
    end_s: float
    number: int
    """Which agent or broker."""

    def __str__(self) -> str:
        return f"{self.start_s:.1f}–{self.end_s:.1f} s: {self.kind.value} ({self.number})"


@dataclass(frozen=True, slots=True)
class Schedule:
    """All of it."""

    seed: int
    federation: Federation
    powers: dict[str, float]
    """Computing power by host."""
    topics: tuple[str, ...]
    clients: int
    faults: tuple[Fault, ...]
    plans_at_s: tuple[float, ...]
    """When operators want a plan in force."""
    loss_ratio: float
    late_ratio: float


def make_schedule(seed: int) -> Schedule:
    """The schedule of a seed."""
    draw = random.Random(seed)
    hosts = draw.choice((2, 3, 3, 3, 5))
    edges = draw.randint(max(3, hosts - 1), 5)
    names = [f"h{number}" for number in range(1, hosts + 1)]
    brokers = ["head", *(f"edge{number}" for number in range(1, edges + 1))]
    calibrated = draw.random() < 0.5
    capacities = [draw.choice((2000.0, 4000.0, 8000.0)) if calibrated else None for _ in brokers]
    domain = Domain(
        name=DOMAIN,
        base_port=4000,
        head=Edge(capacity=capacities[0]),
        edges=tuple(Edge(capacity=capacity) for capacity in capacities[1:]),
        hosts=tuple(
            Host(name=name, address="127.0.0.1", brokers=tuple(brokers[number::hosts]))
            for number, name in enumerate(names)
        ),
    )
    # Plans move clients; sessions have schedules of their own.
    balancing = Balancing(enabled=False, migration_timeout_s=3.0, period_s=SAMPLE_S)
    return Schedule(
        seed=seed,
        federation=Federation(name="virtual", domains={DOMAIN: domain}, links=(), balancing=balancing),
        powers={name: draw.choice((1000.0, 2000.0, 4000.0)) for name in names},
        topics=tuple(f"t.{number}" for number in range(draw.randint(2, 6))),
        clients=draw.randint(2, 4),
        faults=tuple(_faults(hosts, draw)),
        plans_at_s=tuple(_plan_times(draw)),
        loss_ratio=draw.choice((0.0, 0.02, 0.1, 0.25)),
        late_ratio=draw.choice((0.0, 0.0, 0.05, 0.2)),
    )


def _plan_times(draw: random.Random) -> list[float]:
    at, times = START_S, []
    pause = draw.choice((0.8, 2.0, 5.0))
    while at < HEALED_S:
        times.append(at)
        at += draw.uniform(0.5, 1.5) * pause
    return [*times, HEALED_S + 5.0]


def _faults(hosts: int, draw: random.Random) -> list[Fault]:
    faults: list[Fault] = []
    kinds = [kind for kind in SeveralFault if kind is not SeveralFault.BROKER_DIES]
    for _ in range(draw.choice((1, 2, 3, 4, 6))):
        start_s = draw.uniform(START_S, HEALED_S - 4.0)
        end_s = min(HEALED_S, start_s + draw.choice((0.3, 1.0, 4.0, 8.0)) * draw.uniform(0.5, 1.5))
        faults.append(Fault(draw.choice(kinds), start_s, end_s, draw.randrange(hosts)))
    if draw.random() < 0.35:
        start_s = draw.uniform(START_S + 3.0, HEALED_S - 8.0)
        faults.append(Fault(SeveralFault.BROKER_DIES, start_s, HEALED_S, draw.randrange(100)))
    return faults
