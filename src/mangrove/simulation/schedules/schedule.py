"""Failure schedules: a network, its traffic and what goes wrong, all made from one seed."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, lru_cache
from itertools import combinations, pairwise

from mangrove.model.federation import Domain, Federation, Link
from mangrove.model.site_pair import SitePair, site_pair
from mangrove.model.topics import Contract, Order, TopicRules
from mangrove.routing.failover.gateway_tables import GatewayTables, tables_by_domain

BANDWIDTH_MBPS = 30.0
"""Room for one stream of `broad`, not for two; the simulated links take everything all the same."""
NETWORKS = 300
"""Schedules are played on one of so many networks, since to start one costs most."""

TWICE, ORDERED, PLAIN, SURE, BROAD = "twice", "ordered", "plain", "sure", "broad"
RULES = TopicRules(
    (
        Contract(match=f"{TWICE}.>", paths=2),
        Contract(match=f"{ORDERED}.>", paths=2, order=Order.PUBLISHER),
        Contract(match=f"{SURE}.>", resiliency=0.99999, deadline_ms=200),
        Contract(match=f"{BROAD}.>", rate_mbps=20, max_hops=2),
    )
)
REDUNDANT = (TWICE, ORDERED, SURE)
"""Topics whose contracts promise that the failure of one link or one gateway costs nothing, where two paths
exist that share none. That of `sure` does, since no set that needs one of them alone is probable enough."""


class FaultKind(Enum):
    """What goes wrong."""

    BLACK_HOLE = "a link swallows everything"
    RESET = "a connection is broken"
    CRASH = "a gateway dies, its neighbours are told"
    SILENT_CRASH = "a gateway dies with its machine"
    LOSS = "a link loses packets"


LINK_FAULTS = (FaultKind.BLACK_HOLE, FaultKind.RESET, FaultKind.LOSS)
NODE_FAULTS = (FaultKind.CRASH, FaultKind.SILENT_CRASH)


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: where (a link's ends, or a gateway) and for how long, counted from the first message."""

    kind: FaultKind
    where: tuple[str, ...]
    start_s: float
    end_s: float

    def __str__(self) -> str:
        return f"{self.start_s:.3f} to {self.end_s:.3f} s: {self.kind.value} ({' '.join(self.where)})"


@dataclass(frozen=True, slots=True)
class Stream:
    """Messages at regular intervals from one domain to those that subscribe to their subject."""

    source: str
    subject: str
    receivers: tuple[str, ...]
    start_s: float
    interval_s: float

    @property
    def topic(self) -> str:
        return self.subject.partition(".")[0]


@dataclass(frozen=True, eq=False)
class Setting:
    """A network and who talks to whom on it."""

    federation: Federation
    tables: Mapping[str, GatewayTables]
    streams: tuple[Stream, ...]

    def ways(self) -> list[tuple[str, ...]]:
        """The ways that messages take by table when nothing has failed."""
        return [
            self.tables[stream.source].path(receiver)
            for stream in self.streams
            for receiver in stream.receivers
        ]

    @cached_property
    def links(self) -> frozenset[SitePair]:
        """The links by their ends, in alphabetical order."""
        return frozenset(site_pair(*link.between) for link in self.federation.links)

    def reached(self, start: str, *, without: Iterable[SitePair] = (), gone: Iterable[str] = ()) -> set[str]:
        """Domains that can be reached without some links and domains."""
        usable = [pair for pair in self.links.difference(without) if not set(pair) & set(gone)]
        reached = {start}
        while more := {name for pair in usable if reached & set(pair) for name in pair} - reached:
            reached |= more
        return reached

    def disjoint(self, source: str, receiver: str) -> bool:
        """Whether two paths exist that share no link and no inner domain (Menger: no single one cuts)."""
        direct = site_pair(source, receiver)
        if direct in self.links and receiver not in self.reached(source, without=[direct]):
            return False
        inner = self.federation.domains.keys() - {source, receiver}
        return all(receiver in self.reached(source, gone=[name]) for name in inner)


@dataclass(frozen=True, slots=True)
class Schedule:
    """Everything that happens, made from the seed alone."""

    seed: int
    setting: Setting
    faults: tuple[Fault, ...]


@lru_cache(maxsize=NETWORKS)
def setting(number: int) -> Setting:
    """One of the settings: a ring, or a tree, of four to six domains, with some links more; four streams."""
    chance = random.Random(number)
    names = [chr(ord("a") + position) for position in range(chance.randint(4, 6))]
    order = chance.sample(names, len(names))
    if chance.random() < 0.75:
        pairs = {site_pair(*ends) for ends in zip(order, [*order[1:], order[0]], strict=True)}
    else:
        pairs = {site_pair(name, chance.choice(order[:place])) for place, name in enumerate(order) if place}
    others = sorted(set(combinations(names, 2)) - pairs)
    pairs |= set(chance.sample(others, min(len(others), chance.randint(0, 3))))
    federation = Federation(
        name=f"network {number}",
        domains={name: Domain(name=name, base_port=1) for name in names},
        links=tuple(
            Link(between=pair, delay_ms=round(chance.uniform(1.0, 10.0), 3), bandwidth_mbps=BANDWIDTH_MBPS)
            for pair in sorted(pairs)
        ),
        topics=RULES,
    )
    streams = tuple(
        _stream(chance, names, f"{topic}.{position}")
        for position, topic in enumerate(
            (TWICE, PLAIN, chance.choice((TWICE, PLAIN, ORDERED)), chance.choice((SURE, SURE, BROAD)))
        )
    )
    return Setting(federation, tables_by_domain(federation), streams)


def _stream(chance: random.Random, names: list[str], subject: str) -> Stream:
    source, *receivers = chance.sample(names, chance.choice((2, 2, 3)))
    return Stream(
        source, subject, tuple(sorted(receivers)), chance.uniform(0.0, 0.1), chance.uniform(0.03, 0.15)
    )


def network_number(seed: int) -> int:
    """Which of the networks a seed's schedule is played on: the first number drawn from it."""
    return _draw_network(random.Random(seed))


def _draw_network(chance: random.Random) -> int:
    return chance.randrange(NETWORKS)


def make_schedule(seed: int) -> Schedule:
    """Half of the schedules have one fault, the others several at once; most faults meet the traffic."""
    chance = random.Random(seed)
    where = setting(_draw_network(chance))
    count = 1 if chance.random() < 0.5 else chance.randint(2, 5)
    return Schedule(seed, where, tuple(_fault(chance, where) for _ in range(count)))


def _fault(chance: random.Random, setting: Setting) -> Fault:
    kind = chance.choices(tuple(FaultKind), weights=(4, 1, 2, 2, 1))[0]
    links: list[tuple[str, ...]] = [link.between for link in setting.federation.links]
    names: list[tuple[str, ...]] = [(name,) for name in setting.federation.domain_order]
    if chance.random() < 0.8:
        way = chance.choice(setting.ways())
        links = list(pairwise(way))
        names = [(name,) for name in way[1:-1]] or names
    where = chance.choice(links if kind in LINK_FAULTS else names)
    start = chance.uniform(0.2, 1.0)
    return Fault(kind, where, start, start + chance.choice((0.05, 0.5, 1.2, 2.5)) * chance.uniform(0.8, 1.2))
