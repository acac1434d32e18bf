"""Budgets for each hop against total laxity and first in, first out, in simulation (Harmony §3.3).

A chain of sites whose links all have the same bandwidth. Streams with tight, middling and loose deadlines go
from end to end, and as many over each single hop; they come in bursts, and bulk without a deadline fills
what is left. One hop (the first, a middle one, the last, or none) gets half as much again, so that what has
a deadline exceeds its bandwidth in every burst. The production engines queue and forward; every order of the
queues gets the same messages at the same times.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from mangrove.evaluation.confidence import Estimate, estimate
from mangrove.evaluation.trials.campaign import Results, collect
from mangrove.evaluation.trials.experiment import Experiment
from mangrove.model.federation import Domain, Federation, Link, Urgency
from mangrove.model.topics import Contract, TopicRules
from mangrove.simulation.overlay_network import SimulatedOverlay

SITES = ("n1", "n2", "n3", "n4", "n5")
HOPS = len(SITES) - 1
LINK_DELAY_MS = 5.0
BYTES_PER_S = 100_000.0
SIZE_BYTES = 500
SECONDS = 10.0
WARM_UP_S = 2.0
BURST_S = 0.3
PAUSE_S = 0.45
BURST_LOAD = 0.55
"""Share of a link's bandwidth, by streams with deadlines, during a burst at either of its two sources."""
BULK_LOAD = 0.3
OVERLOAD = 1.5
QUEUE_BYTES = 4 << 20

PLACES = {"none": -1, "first": 0, "middle": HOPS // 2 - 1, "last": HOPS - 1}
"""Which hop is overloaded."""

ORDERS = (Urgency.ARRIVAL, Urgency.LAXITY, Urgency.EQUAL_BUDGET, Urgency.BUDGET)
LABELS = {
    Urgency.ARRIVAL: "first in, first out",
    Urgency.LAXITY: "total laxity",
    Urgency.EQUAL_BUDGET: "budgets, equal split",
    Urgency.BUDGET: "budgets by load",
}


@dataclass(frozen=True, slots=True)
class Stream:
    """Messages of one contract from a site to another."""

    kind: str
    source: int
    destination: int
    deadline_ms: float
    share: float
    """Of the load that its source offers in a burst."""

    @property
    def subject(self) -> str:
        """Where its messages are published."""
        return f"{self.kind.replace(' ', '.')}.{self.source}"


END_TO_END = (("far tight", 60.0, 0.25), ("far middling", 150.0, 0.35), ("far loose", 600.0, 0.4))
ONE_HOP = (("near tight", 30.0, 0.25), ("near middling", 100.0, 0.35), ("near loose", 400.0, 0.4))
KINDS = tuple(kind for kind, _, _ in (*END_TO_END, *ONE_HOP))


def streams() -> list[Stream]:
    """All streams with deadlines: from end to end, and over every single hop."""
    found = [Stream(kind, 0, HOPS, deadline, share) for kind, deadline, share in END_TO_END]
    for hop in range(HOPS):
        found += [Stream(kind, hop, hop + 1, deadline, share) for kind, deadline, share in ONE_HOP]
    return found


@dataclass(frozen=True, slots=True)
class Sending:
    """One message of the load."""

    at: float
    site: str
    receiver: str
    subject: str
    kind: str
    deadline_ms: float
    body: bytes


@dataclass(frozen=True, slots=True)
class Outcome:
    """One order of the queues on one load: shares of messages in time."""

    in_time: Mapping[str, float]
    overall: float


@dataclass(frozen=True)
class BudgetsSummary:
    """All loads with one overloaded hop: shares in time by order of the queues."""

    place: str
    seeds: tuple[int, ...]
    in_time: Mapping[str, Mapping[str, Estimate]]
    overall: Mapping[str, Estimate]


def make_load(place: str, seed: int, seconds: float = SECONDS) -> list[Sending]:
    """The messages of one run: bursts at random times, arrivals at random within them."""
    chance = random.Random(f"{place} {seed}")
    hit = PLACES[place]
    sendings: list[Sending] = []
    bursts: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for stream in streams():
        ends = (stream.source, stream.destination)
        if ends not in bursts:
            bursts[ends] = _bursts(chance, seconds)
        heavier = OVERLOAD if stream.source == hit and stream.destination == hit + 1 else 1.0
        rate = heavier * BURST_LOAD * stream.share * BYTES_PER_S / SIZE_BYTES
        for begin, end in bursts[ends]:
            sendings += _arrivals(chance, stream, rate, begin, end)
    for hop in range(HOPS):
        bulk = Stream("bulk", hop, hop + 1, float("inf"), 1.0)
        sendings += _arrivals(chance, bulk, BULK_LOAD * BYTES_PER_S / SIZE_BYTES, 0.0, seconds)
    return sorted(sendings, key=lambda sending: sending.at)


def _bursts(chance: random.Random, seconds: float) -> list[tuple[float, float]]:
    found = []
    at = chance.uniform(0.0, PAUSE_S)
    while at < seconds:
        end = at + chance.expovariate(1 / BURST_S)
        found.append((at, min(end, seconds)))
        at = end + chance.expovariate(1 / PAUSE_S)
    return found


def _arrivals(chance: random.Random, stream: Stream, rate: float, begin: float, end: float) -> list[Sending]:
    found: list[Sending] = []
    at = begin + chance.expovariate(rate)
    while at < end:
        body = f"{stream.subject} {stream.destination} {begin:.6f} {len(found)} ".encode()
        found.append(
            Sending(
                at,
                SITES[stream.source],
                SITES[stream.destination],
                stream.subject,
                stream.kind,
                stream.deadline_ms,
                body.ljust(SIZE_BYTES, b"x"),
            )
        )
        at += chance.expovariate(rate)
    return found


def chain(order: Urgency) -> Federation:
    """The chain, with queues in one order."""
    rules = TopicRules(
        tuple(Contract(match=stream.subject, deadline_ms=stream.deadline_ms) for stream in streams())
    )
    return Federation(
        name="chain",
        domains={name: Domain(name=name, base_port=1) for name in SITES},
        links=tuple(Link(between=pair, delay_ms=LINK_DELAY_MS) for pair in pairwise(SITES)),
        topics=rules,
        queue_bytes=QUEUE_BYTES,
        urgency=order,
    )


def run_load(load: Sequence[Sending], order: Urgency, seed: int, seconds: float = SECONDS) -> Outcome:
    """One order of the queues on one load."""
    net = SimulatedOverlay(chain(order), seed)
    for link in net.links.values():
        link.bytes_per_s = BYTES_PER_S
    for receiver, subject in sorted({(sending.receiver, sending.subject) for sending in load}):
        net.subscribe(receiver, subject)
    net.run(WARM_UP_S)
    begin = net.now
    for sending in load:
        net.at(begin + sending.at, partial(_publish, net, sending))
    net.run(begin + seconds + 5.0)
    due: dict[str, int] = defaultdict(int)
    in_time: dict[str, int] = defaultdict(int)
    for sending in load:
        if sending.kind in KINDS:
            arrived = net.delivered_at.get((sending.receiver, sending.body), float("inf"))
            due[sending.kind] += 1
            in_time[sending.kind] += 1000 * (arrived - begin - sending.at) <= sending.deadline_ms
    shares = {kind: in_time[kind] / due[kind] if due[kind] else 1.0 for kind in KINDS}
    return Outcome(shares, sum(in_time.values()) / max(1, sum(due.values())))


def _publish(net: SimulatedOverlay, sending: Sending) -> None:
    net.publish(sending.site, sending.subject, sending.body)


@dataclass(frozen=True, slots=True)
class Overload:
    """Which hop is overloaded, and for how long messages are sent."""

    place: str
    seconds: float = SECONDS


def run_seed(overload: Overload, seed: int) -> dict[str, Outcome]:
    """Every order on the load of a seed."""
    load = make_load(overload.place, seed, overload.seconds)
    return {order.value: run_load(load, order, seed, overload.seconds) for order in ORDERS}


def budgets_trials(
    places: Sequence[str] = tuple(PLACES), seconds: float = SECONDS
) -> Experiment[Overload, dict[str, Outcome]]:
    """The experiment as trials, a setting for each place that is overloaded."""
    settings = {place: Overload(place, seconds) for place in places}
    return Experiment("budgets", run_seed, settings, dict[str, Outcome])


def summarise(results: Results[dict[str, Outcome]]) -> list[BudgetsSummary]:
    """Means over the seeds, for each place."""
    return [
        _summary(
            place,
            results.seeds(place),
            {order.value: [one[order.value] for one in results.of(place)] for order in ORDERS},
        )
        for place in results.by_setting
    ]


def run_budgets(seeds: Sequence[int], places: Sequence[str] = tuple(PLACES)) -> list[BudgetsSummary]:
    """Every order on every load, in this process."""
    trials = budgets_trials(places)
    return summarise(collect(trials, trials.tasks(seeds)))


def _summary(place: str, seeds: tuple[int, ...], outcomes: Mapping[str, Sequence[Outcome]]) -> BudgetsSummary:
    return BudgetsSummary(
        place,
        seeds,
        {
            order: {kind: estimate([one.in_time[kind] for one in found]) for kind in KINDS}
            for order, found in outcomes.items()
        },
        {order: estimate([one.overall for one in found]) for order, found in outcomes.items()},
    )
