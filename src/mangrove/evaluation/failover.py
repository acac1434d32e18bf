"""Reconvergence and loss after one silent failure, against an OSPF-like protocol (PCRT figures 9 and 10).

On random two-connected networks some pairs of sites exchange a steady stream of messages over ways that one
link, or one transit site, has in common. It begins to swallow everything, and nobody is told. Measured: how
long it takes until a message that was sent after the failure arrives, and until all gateways know what has
failed; how many messages are lost. Every scheme gets the same networks, streams and failures.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, pairwise
from typing import Protocol

from mangrove.evaluation.baselines.ospf import OspfTimers, SimulatedRouters
from mangrove.evaluation.confidence import Estimate, estimate
from mangrove.evaluation.trials.campaign import Results, collect
from mangrove.evaluation.trials.experiment import Experiment
from mangrove.model.federation import Domain, Federation, Link
from mangrove.model.site_pair import SitePair
from mangrove.model.topics import Contract, TopicRules
from mangrove.overlay.links.liveness import Timing
from mangrove.routing.failover.gateway_tables import GatewayTables, tables_by_domain
from mangrove.simulation.overlay_network import SimulatedOverlay

TIMING = Timing()
FAST = OspfTimers(hello_s=1.0, dead_s=4.0)
EQUAL = OspfTimers(hello_s=TIMING.heartbeat_s, dead_s=round(2 * TIMING.heartbeat_s + TIMING.min_slack_s, 6))
"""The heartbeat interval of the overlay, and the dead interval that it has on a quiet link."""

SCHEMES = ("mangrove", "mangrove_two_paths", "ospf_fast", "ospf_equal")
LABELS = {
    "mangrove": "Mangrove, one path",
    "mangrove_two_paths": "Mangrove, two paths",
    "ospf_fast": f"OSPF-like, hello {FAST.hello_s:g} s, dead {FAST.dead_s:g} s",
    "ospf_equal": f"OSPF-like, hello {1000 * EQUAL.hello_s:g} ms, dead {1000 * EQUAL.dead_s:g} ms",
}
FAILURES = ("link", "node")
SIZES = ((6, 9), (12, 24))
INTERVAL_S = 0.01
PAIRS = 4
LOOK_S = 0.005
BEFORE_S = 0.3
AFTER_S = 1.0
"""Messages go on for so long after the longest detection."""

_RULES = TopicRules((Contract(match="twice.>", paths=2),))


@dataclass(frozen=True)
class Case:
    """A network, one failure in it, and the pairs whose way it cuts; made from a seed."""

    seed: int
    federation: Federation
    tables: Mapping[str, GatewayTables]
    failure: tuple[str, ...]
    """The ends of a link, or a site."""
    pairs: tuple[SitePair, ...]
    moment: float
    """When it happens, as a share of a heartbeat interval."""

    @property
    def delays_ms(self) -> dict[SitePair, float]:
        """Links and their delays."""
        weight = self.federation.link_weight
        return {_pair(*link.between): weight(link) for link in self.federation.links}

    @property
    def failed(self) -> frozenset[SitePair]:
        """The links that do not work after the failure."""
        if len(self.failure) == 2:
            return frozenset([_pair(*self.failure)])
        return frozenset(pair for pair in self.delays_ms if self.failure[0] in pair)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One scheme on one case; times in seconds from the failure, means over the pairs."""

    reconverged_s: float
    agreed_s: float
    lost: float
    """Messages lost of each stream."""
    duplicates: int


@dataclass(frozen=True)
class FailoverSummary:
    """All cases of one size of network and one kind of failure."""

    nodes: int
    links: int
    failure: str
    seeds: tuple[int, ...]
    reconverged_ms: Mapping[str, Estimate]
    worst_reconverged_ms: Mapping[str, float]
    agreed_ms: Mapping[str, Estimate]
    lost: Mapping[str, Estimate]
    duplicates: Mapping[str, int]

    def missed(self) -> list[str]:
        """Where this protocol does not do what it is for; empty when it always does."""
        lines = []
        where = f"{self.failure} failures, {self.nodes} nodes"
        if self.failure == "link" and self.lost["mangrove"].mean:
            lines.append(f"{where}: {self.lost['mangrove']} messages lost with one path")
        if self.lost["mangrove_two_paths"].mean:
            lines.append(f"{where}: {self.lost['mangrove_two_paths']} messages lost with two paths")
        if any(self.duplicates.values()):
            lines.append(f"{where}: messages delivered twice: {dict(self.duplicates)}")
        if self.reconverged_ms["mangrove"].mean >= self.reconverged_ms["ospf_fast"].mean:
            lines.append(f"{where}: slower than the OSPF-like protocol with fast timers")
        return lines


# -- cases ------------------------------------------------------------------------------------------------


def make_case(nodes: int, links: int, failure: str, seed: int) -> Case:
    """A ring in random order with random links across, and a failure on the way of some pairs."""
    chance = random.Random(f"{nodes} {links} {failure} {seed}")
    names = [f"n{number:02}" for number in range(nodes)]
    order = chance.sample(names, nodes)
    pairs = {_pair(first, second) for first, second in zip(order, [*order[1:], order[0]], strict=True)}
    pairs |= set(chance.sample(sorted(set(combinations(names, 2)) - pairs), links - len(pairs)))
    federation = Federation(
        name="failover",
        domains={name: Domain(name=name, base_port=1) for name in names},
        links=tuple(
            Link(between=pair, delay_ms=round(chance.uniform(2.0, 8.0), 3)) for pair in sorted(pairs)
        ),
        topics=_RULES,
    )
    tables = tables_by_domain(federation)
    ways = [tables[source].path(receiver) for source in names for receiver in names if source != receiver]
    if failure == "link":
        broken: tuple[str, ...] = chance.choice(sorted(pairs))
        hit = [way for way in ways if set(broken) <= set(way) and _pair(*broken) in _links(way)]
    else:
        broken = (chance.choice([name for way in ways for name in way[1:-1]]),)
        hit = [way for way in ways if broken[0] in way[1:-1]]
    chosen = chance.sample(hit, min(PAIRS, len(hit)))
    if not chosen:  # no shortest way uses this link; another one
        return make_case(nodes, links, failure, seed + 1_000_003)
    return Case(seed, federation, tables, broken, tuple((way[0], way[-1]) for way in chosen), chance.random())


def _links(way: Sequence[str]) -> set[SitePair]:
    return {_pair(first, second) for first, second in pairwise(way)}


def _pair(first: str, second: str) -> SitePair:
    return (first, second) if first < second else (second, first)


# -- the schemes on the same case ---------------------------------------------------------------------------


class _Network(Protocol):
    """What the experiment needs of a simulated network."""

    now: float
    delivered: Counter[tuple[str, bytes]]
    delivered_at: dict[tuple[str, bytes], float]

    def at(self, time: float, action: Callable[[], None]) -> None: ...
    def run(self, until: float) -> None: ...
    def black_hole(self, first: str, second: str, swallow: bool) -> None: ...


def run_case(case: Case, scheme: str) -> Outcome:
    """One scheme on one case."""
    if scheme.startswith("ospf"):
        return _run_ospf(case, FAST if scheme == "ospf_fast" else EQUAL)
    return _run_overlay(case, "twice" if scheme == "mangrove_two_paths" else "once")


def _run_overlay(case: Case, topic: str) -> Outcome:
    net = SimulatedOverlay(case.federation, case.seed, timing=TIMING, tables=case.tables)
    subjects = {pair: f"{topic}.{number}" for number, pair in enumerate(case.pairs)}
    for (_, receiver), subject in subjects.items():
        net.subscribe(receiver, subject)
    net.run(3.0)

    def publish(pair: SitePair, body: bytes) -> None:
        net.publish(pair[0], subjects[pair], body)

    def agreed() -> bool:
        return all(
            engine.failed_links == case.failed
            for name, engine in net.engines.items()
            if name not in case.failure or len(case.failure) == 2
        )

    crash = partial(net.crash, case.failure[0], silent=True)
    return _measure(net, case, TIMING.heartbeat_s, 0.5, publish, agreed, crash)


def _run_ospf(case: Case, timers: OspfTimers) -> Outcome:
    net = SimulatedRouters(case.delays_ms, case.seed, timers)
    # Time for all to find each other and for the hold after the last computation to pass.
    net.run(10.0 + 10 * timers.hello_s)

    def publish(pair: SitePair, body: bytes) -> None:
        net.publish(*pair, body)

    def agreed() -> bool:
        return all(net.failed(name) == case.failed for name in net.nodes)

    crash = partial(net.crash, case.failure[0])
    return _measure(net, case, timers.hello_s, timers.dead_s, publish, agreed, crash)


def _measure(
    net: _Network,
    case: Case,
    hello_s: float,
    detection_s: float,
    publish: Callable[[SitePair, bytes], None],
    agreed: Callable[[], bool],
    crash: Callable[[], None],
) -> Outcome:
    begin = net.now
    failure_at = begin + BEFORE_S + case.moment * hello_s
    end = failure_at + detection_s + AFTER_S
    sent: dict[SitePair, list[tuple[float, bytes]]] = {pair: [] for pair in case.pairs}
    for number, pair in enumerate(case.pairs):
        count = int((end - begin) / INTERVAL_S)
        for step in range(count):
            time = begin + (step + number / len(case.pairs)) * INTERVAL_S
            body = f"{number} {step}".encode()
            sent[pair].append((time, body))
            net.at(time, partial(publish, pair, body))
    net.run(failure_at)
    if len(case.failure) == 2:
        net.black_hole(*case.failure, True)
    else:
        crash()
    agreed_at = float("inf")
    while net.now < end + 1.0:
        net.run(net.now + LOOK_S)
        if agreed_at == float("inf") and agreed():
            agreed_at = net.now
    reconverged = []
    lost = 0
    for (_, receiver), messages in sent.items():
        arrivals = [
            net.delivered_at[receiver, body]
            for time, body in messages
            if time > failure_at and (receiver, body) in net.delivered_at
        ]
        reconverged.append(min(arrivals, default=float("inf")) - failure_at)
        lost += sum((receiver, body) not in net.delivered_at for _, body in messages)
    return Outcome(
        sum(reconverged) / len(reconverged),
        agreed_at - failure_at,
        lost / len(case.pairs),
        sum(count - 1 for count in net.delivered.values()),
    )


@dataclass(frozen=True, slots=True)
class CaseKind:
    """Networks of one size, and one kind of failure."""

    nodes: int
    links: int
    failure: str


def run_seed(kind: CaseKind, seed: int) -> dict[str, Outcome]:
    """All schemes on the case of a seed."""
    case = make_case(kind.nodes, kind.links, kind.failure, seed)
    return {scheme: run_case(case, scheme) for scheme in SCHEMES}


def failover_trials(
    sizes: Sequence[tuple[int, int]] = SIZES,
) -> Experiment[CaseKind, dict[str, Outcome]]:
    """The experiment as trials."""
    kinds = [CaseKind(nodes, links, failure) for nodes, links in sizes for failure in FAILURES]
    settings = {f"{kind.failure}, {kind.nodes} sites": kind for kind in kinds}
    return Experiment("failover", run_seed, settings, dict[str, Outcome])


def summarise(
    trials: Experiment[CaseKind, dict[str, Outcome]], results: Results[dict[str, Outcome]]
) -> list[FailoverSummary]:
    """Means over the seeds, for each kind of case."""
    return [
        _summary(
            *(kind.nodes, kind.links, kind.failure, results.seeds(name)),
            {scheme: [one[scheme] for one in results.of(name)] for scheme in SCHEMES},
        )
        for name, kind in trials.settings.items()
    ]


def run_failover(seeds: Sequence[int], sizes: Sequence[tuple[int, int]] = SIZES) -> list[FailoverSummary]:
    """All schemes on all cases, in this process."""
    trials = failover_trials(sizes)
    return summarise(trials, collect(trials, trials.tasks(seeds)))


def _summary(
    nodes: int, links: int, failure: str, seeds: tuple[int, ...], outcomes: Mapping[str, Sequence[Outcome]]
) -> FailoverSummary:
    return FailoverSummary(
        nodes,
        links,
        failure,
        seeds,
        {scheme: estimate([1000 * one.reconverged_s for one in all_]) for scheme, all_ in outcomes.items()},
        {scheme: max(1000 * one.reconverged_s for one in all_) for scheme, all_ in outcomes.items()},
        {scheme: estimate([1000 * one.agreed_s for one in all_]) for scheme, all_ in outcomes.items()},
        {scheme: estimate([one.lost for one in all_]) for scheme, all_ in outcomes.items()},
        {scheme: sum(one.duplicates for one in all_) for scheme, all_ in outcomes.items()},
    )
