"""Failure schedules: random networks, traffic and faults from one seed, and the promises checked on each.

The production engines run under virtual time. Every schedule checks that no frame loops, that nothing is
delivered twice, and that after everything has healed all gateways agree, all routes stand and messages
arrive. A schedule with exactly one failure checks more: what the contract promises is not lost. That is
everything on topics with `paths: 2`, if two disjoint paths exist, and everything on any topic when a link
fails silently that leaves the pair connected, since frames are acknowledged hop by hop.

Heartbeats are slower than in production, so that a schedule costs fewer events; nothing else is changed.
"""

from __future__ import annotations

import io
import pickle
import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache, partial
from itertools import combinations, pairwise

from mangrove.evaluation.simulation import Pair, SimulatedOverlay
from mangrove.model.federation import Domain, Federation, Link
from mangrove.model.topics import Contract, Order, TopicRules
from mangrove.overlay.liveness import Timing
from mangrove.routing.condensed import BrokerTable
from mangrove.routing.graph import Graph
from mangrove.routing.tables import FailoverTables, build_tables
from mangrove.routing.topology import graph_of_federation

TIMING = Timing(heartbeat_s=0.2, least_slack_s=0.1, flap_hold_s=0.1, flap_most_s=0.5, flap_half_life_s=1.0)
NETWORKS = 300
"""Schedules begin on one of so many networks at rest, which are kept: starting one costs most."""
JITTER_S = 0.0005
READY_S = 10.0
TRAFFIC_S = 2.0
SETTLE_S = 30.0
STEP_S = 0.25
LAST_S = 3.0

TWICE, ORDERED, PLAIN = "twice", "ordered", "plain"
RULES = TopicRules(
    (
        Contract(match=f"{TWICE}.>", paths=2),
        Contract(match=f"{ORDERED}.>", paths=2, order=Order.PUBLISHER),
    )
)


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
    tables: FailoverTables
    streams: tuple[Stream, ...]

    def ways(self) -> list[tuple[str, ...]]:
        """The ways that messages take by table when nothing has failed."""
        return [
            self.tables.path(stream.source, receiver)
            for stream in self.streams
            for receiver in stream.receivers
        ]


@dataclass(frozen=True, slots=True)
class Schedule:
    """Everything that happens, made from the seed alone."""

    seed: int
    setting: Setting
    faults: tuple[Fault, ...]


@dataclass(frozen=True, slots=True)
class ScheduleResult:
    """What came of a schedule; `problems` is empty when all promises were kept."""

    seed: int
    domains: int
    links: int
    faults: tuple[Fault, ...]
    sent: int
    delivered: int
    lost: int
    promised: int
    """Deliveries that the contract promised in spite of the fault; zero if there were several faults."""
    virtual_s: float
    dropped: dict[str, int]
    problems: tuple[str, ...]

    @property
    def command(self) -> str:
        """Repeats this schedule."""
        return f"mangrove evaluate schedules --seeds 1 --seed {self.seed}"

    def __str__(self) -> str:
        what = [f"seed {self.seed}: {self.domains} domains, {self.links} links"]
        what += [f"  {fault}" for fault in self.faults]
        what += [f"  PROBLEM: {problem}" for problem in self.problems]
        return "\n".join([*what, f"  repeat with: {self.command}"])


@dataclass(slots=True)
class ScheduleTotals:
    """What came of many schedules."""

    schedules: int = 0
    faults: int = 0
    virtual_s: float = 0.0
    sent: int = 0
    lost: int = 0
    promised: int = 0
    broken: list[ScheduleResult] = field(default_factory=list)

    def add(self, result: ScheduleResult) -> None:
        """Count one schedule."""
        self.schedules += 1
        self.faults += len(result.faults)
        self.virtual_s += result.virtual_s
        self.sent += result.sent
        self.lost += result.lost
        self.promised += result.promised
        if result.problems:
            self.broken.append(result)


# -- making -----------------------------------------------------------------------------------------------


@lru_cache(maxsize=NETWORKS)
def setting(number: int) -> Setting:
    """One of the settings: a ring, or a tree, of four to six domains, with some links more; three streams."""
    chance = random.Random(number)
    names = [chr(ord("a") + position) for position in range(chance.randint(4, 6))]
    order = chance.sample(names, len(names))
    if chance.random() < 0.75:
        pairs = {_pair(first, second) for first, second in zip(order, [*order[1:], order[0]], strict=True)}
    else:
        pairs = {_pair(name, chance.choice(order[:place])) for place, name in enumerate(order) if place}
    others = sorted(set(combinations(names, 2)) - pairs)
    pairs |= set(chance.sample(others, min(len(others), chance.randint(0, 3))))
    federation = Federation(
        name=f"network {number}",
        domains={name: Domain(name=name, base_port=1) for name in names},
        links=tuple(
            Link(between=pair, delay_ms=round(chance.uniform(1.0, 10.0), 3)) for pair in sorted(pairs)
        ),
        topics=RULES,
    )
    streams = tuple(
        _stream(chance, names, f"{topic}.{position}")
        for position, topic in enumerate((TWICE, PLAIN, chance.choice((TWICE, PLAIN, ORDERED))))
    )
    return Setting(federation, build_tables(graph_of_federation(federation)), streams)


def _stream(chance: random.Random, names: list[str], subject: str) -> Stream:
    source, *receivers = chance.sample(names, chance.choice((2, 2, 3)))
    return Stream(
        source, subject, tuple(sorted(receivers)), chance.uniform(0.0, 0.1), chance.uniform(0.03, 0.15)
    )


def make_schedule(seed: int) -> Schedule:
    """Half of the schedules have one fault, the others several at once; most faults meet the traffic."""
    chance = random.Random(seed)
    where = setting(chance.randrange(NETWORKS))
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


def _pair(first: str, second: str) -> Pair:
    return (first, second) if first < second else (second, first)


# -- playing ----------------------------------------------------------------------------------------------


def run_schedule(seed: int) -> ScheduleResult:
    """Make the schedule of a seed, play it, and check the promises."""
    return _Run(make_schedule(seed)).play()


def run_schedules(
    seeds: Iterable[int], on_result: Callable[[ScheduleResult], None] | None = None
) -> ScheduleTotals:
    """Many schedules one after the other; the results of those that broke a promise are kept."""
    totals = ScheduleTotals()
    for seed in seeds:
        result = run_schedule(seed)
        totals.add(result)
        if on_result is not None:
            on_result(result)
    return totals


@lru_cache(maxsize=NETWORKS)
def _at_rest(where: Setting) -> tuple[bytes, list[object]]:
    """A started network in which everybody knows everything, and all routes stand."""
    net = SimulatedOverlay(where.federation, 0, timing=TIMING, tables=where.tables, jitter_s=JITTER_S)
    for stream in where.streams:
        for name in stream.receivers:
            net.subscribe(name, stream.subject)
    problem = settle(net, where, READY_S)
    assert not problem, f"{where.federation.name} did not start in {READY_S:g} s: {problem}"
    file = io.BytesIO()
    keeper = _Keeper(file)
    keeper.dump(net)
    return file.getvalue(), keeper.shared


class _Keeper(pickle.Pickler):
    """Keeps a network; what never changes is shared by all copies."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.shared: list[object] = []
        self._position: dict[int, int] = {}

    def persistent_id(self, thing: object) -> int | None:
        if not isinstance(thing, Federation | TopicRules | FailoverTables | BrokerTable | Graph):
            return None
        position = self._position.setdefault(id(thing), len(self.shared))
        if position == len(self.shared):
            self.shared.append(thing)
        return position


class _Restorer(pickle.Unpickler):
    def __init__(self, kept: tuple[bytes, list[object]]) -> None:
        super().__init__(io.BytesIO(kept[0]))
        self._shared = kept[1]

    def persistent_load(self, position: int) -> object:
        return self._shared[position]


def settle(net: SimulatedOverlay, where: Setting, limit_s: float) -> str:
    """Let time pass until the network is at rest with everything up; what is missing if it never is."""
    limit = net.now + limit_s
    while (missing := _missing(net, where)) and net.now < limit:
        net.run(net.now + STEP_S)
    return missing


def _missing(net: SimulatedOverlay, where: Setting) -> str:
    """What keeps the network from being at rest with everything up; empty if nothing does."""
    for name, engine in net.engines.items():
        if not all(neighbour.usable for neighbour in engine.neighbours):
            return f"{name} has a link that is not usable"
        if engine.live.failed or engine.live.colour != 1:
            return f"{name} believes in failures: {sorted(engine.live.failed)}"
    for stream in where.streams:
        engine = net.engines[stream.source]
        flow = engine.flows.flow_of(stream.subject)
        wanted = sum(1 << where.federation.domain_order.index(name) for name in stream.receivers)
        if flow is None or flow.destinations != wanted:
            return f"{stream.source} does not know who wants {stream.subject}"
        for name in stream.receivers if stream.topic != PLAIN else ():
            routes = engine.routes.sets.get((RULES.index_of(stream.subject), name))
            paths = [] if routes is None else [route.path for route in routes.active()]
            if not paths:
                return f"no route from {stream.source} to {name} stands"
            if disjoint(net.links, stream.source, name) and not _apart(paths):
                return f"no disjoint routes from {stream.source} to {name} stand, only {paths}"
    return ""


def _apart(paths: list[tuple[str, ...]]) -> bool:
    """Whether there are two paths, and no link and no inner domain is used twice."""
    inner = [name for path in paths for name in path[1:-1]]
    links = [_pair(*hop) for path in paths for hop in pairwise(path)]
    return len(paths) > 1 and len(inner) == len(set(inner)) and len(links) == len(set(links))


class _Run:
    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.setting = schedule.setting
        net = _Restorer(_at_rest(self.setting)).load()
        assert isinstance(net, SimulatedOverlay)
        net.random.seed(schedule.seed)
        self.net = net
        self.began = net.now
        self.problems: list[str] = []
        self.expected: dict[tuple[str, bytes], Stream] = {}
        """Deliveries that should be, of what was accepted."""
        self.number = 0

    def play(self) -> ScheduleResult:
        for stream in self.setting.streams:
            self._plan(stream)
        for fault in self.schedule.faults:
            self.net.at(self.began + fault.start_s, partial(self._begin, fault))
            self.net.at(self.began + fault.end_s, partial(self._end, fault))
        self.net.run(self.began + max(TRAFFIC_S, *(fault.end_s for fault in self.schedule.faults)))
        problem = settle(self.net, self.setting, SETTLE_S)
        if problem:
            self.problems.append(f"{SETTLE_S:g} s after everything healed: {problem}")
        self._last_messages()
        self._check()
        return self._result()

    def _plan(self, stream: Stream) -> None:
        time = stream.start_s
        while time < TRAFFIC_S:
            self.net.at(self.began + time, partial(self._publish, stream))
            time += stream.interval_s

    def _publish(self, stream: Stream) -> None:
        if stream.source not in self.net.engines:
            return
        self.number += 1
        body = f"{stream.subject} {self.number}".encode()
        if self.net.publish(stream.source, stream.subject, body):
            for name in stream.receivers:
                self.expected[name, body] = stream
        elif len(self.schedule.faults) == 1 and stream.source not in self.schedule.faults[0].where:
            self.problems.append(f"{stream.source} forgot who wants {stream.subject}")

    def _begin(self, fault: Fault) -> None:
        match fault.kind:
            case FaultKind.BLACK_HOLE:
                self.net.black_hole(fault.where[0], fault.where[1], True)
            case FaultKind.RESET:
                self.net.reset(*fault.where)
            case FaultKind.LOSS:
                self.net.link(*fault.where).loss_ratio = 0.3
            case FaultKind.CRASH | FaultKind.SILENT_CRASH:
                if fault.where[0] in self.net.engines:
                    self.net.crash(fault.where[0], silent=fault.kind is FaultKind.SILENT_CRASH)

    def _end(self, fault: Fault) -> None:
        match fault.kind:
            case FaultKind.BLACK_HOLE:
                self._check_known(fault)
                self.net.black_hole(fault.where[0], fault.where[1], False)
            case FaultKind.LOSS:
                self.net.link(*fault.where).loss_ratio = 0.0
            case FaultKind.CRASH | FaultKind.SILENT_CRASH if fault.where[0] not in self.net.engines:
                self._check_known(fault)
                self.net.start(fault.where[0])
            case _:
                pass

    # -- agreement ----------------------------------------------------------------------------------------

    def _check_known(self, fault: Fault) -> None:
        """A single failure that has lasted for long is known to all who can know, exactly."""
        if len(self.schedule.faults) > 1 or fault.end_s - fault.start_s < 2.0:
            return
        failed = frozenset(
            pair for pair in self.net.links if pair == fault.where or set(pair) & set(fault.where[:1])
        )
        if fault.kind is FaultKind.BLACK_HOLE:
            failed = frozenset([_pair(*fault.where)])
        for name, engine in self.net.engines.items():
            reached = _reached(self.net.links, name, failed, set())
            knowable = {pair for pair in failed if set(pair) & reached}
            if engine.live.failed != knowable:
                self.problems.append(
                    f"{name} believes {sorted(engine.live.failed)} failed, not {sorted(knowable)}"
                )

    def _last_messages(self) -> None:
        """When all agree, messages arrive."""
        before = set(self.expected)
        for stream in self.setting.streams:
            self._publish(stream)
        last = self.expected.keys() - before
        limit = self.net.now + LAST_S
        while not last <= self.net.delivered.keys() and self.net.now < limit:
            self.net.run(self.net.now + STEP_S / 2)
        for name, body in sorted(last - self.net.delivered.keys()):
            self.problems.append(f"at rest, {body.decode()} did not arrive at {name}")

    # -- promises -----------------------------------------------------------------------------------------

    def _check(self) -> None:
        if loops := self.net.dropped["hop limit reached"]:
            self.problems.append(f"{loops} frames reached the hop limit")
        for (name, body), count in self.net.duplicates.items():
            self.problems.append(f"{body.decode()} was delivered to {name} {1 + count} times")
        for name, body in self.net.delivered:
            if (name, body) not in self.expected:
                self.problems.append(f"{body.decode()} was delivered to {name}, which does not want it")
        lost = Counter(
            (stream.source, stream.subject, name)
            for (name, body), stream in self.expected.items()
            if not self.net.delivered[name, body] and self._promised(stream, name)
        )
        for (source, subject, name), count in sorted(lost.items()):
            self.problems.append(f"{count} messages of {subject} lost from {source} to {name}")

    def _promised(self, stream: Stream, receiver: str) -> bool:
        """Whether the contract promises that the only fault costs nothing between two domains."""
        if len(self.schedule.faults) > 1:
            return False
        fault = self.schedule.faults[0]
        if fault.kind in NODE_FAULTS:
            if fault.where[0] in (stream.source, receiver):
                return False
            return stream.topic != PLAIN and disjoint(self.net.links, stream.source, receiver)
        if fault.kind is FaultKind.LOSS:
            return True
        return receiver in _reached(self.net.links, stream.source, {_pair(*fault.where)}, set())

    def _result(self) -> ScheduleResult:
        promised = sum(self._promised(stream, name) for (name, _), stream in self.expected.items())
        delivered = sum(1 for key in self.expected if self.net.delivered[key])
        return ScheduleResult(
            seed=self.schedule.seed,
            domains=len(self.setting.federation.domains),
            links=len(self.net.links),
            faults=self.schedule.faults,
            sent=len(self.expected),
            delivered=delivered,
            lost=len(self.expected) - delivered,
            promised=promised,
            virtual_s=self.net.now - self.began,
            dropped=dict(self.net.dropped),
            problems=tuple(self.problems),
        )


def _reached(links: Iterable[Pair], start: str, without: Iterable[Pair], gone: set[str]) -> set[str]:
    """Domains that can be reached without some links and domains."""
    usable = [pair for pair in set(links) - set(without) if not gone & set(pair)]
    reached = {start}
    while more := {name for pair in usable if reached & set(pair) for name in pair} - reached:
        reached |= more
    return reached


def disjoint(links: Iterable[Pair], source: str, receiver: str) -> bool:
    """Whether two paths exist that share no link and no inner domain (Menger: no single one cuts)."""
    every = set(links)
    direct = {_pair(source, receiver)} & every
    if direct and receiver not in _reached(every, source, direct, set()):
        return False
    inner = {name for pair in every for name in pair} - {source, receiver}
    return all(receiver in _reached(every, source, set(), {name}) for name in inner)
