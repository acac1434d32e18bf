"""Harmony's section 5 in simulation: a link is slowed, then cut, then a site dies, and delivery goes on.

The paper tells what the routes of two topics do in four phases; it prints no delays and no times. Here the
gateways are the production engines in virtual time, and every message is accounted for.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

import numpy as np

from mangrove.evaluation.confidence import Estimate, estimate, estimate_known
from mangrove.evaluation.traces.harmony_phases import (
    PHASES,
    RECEIVERS,
    SLOWED_DELAY_MS,
    SOURCE,
    Disturbance,
    PhaseScript,
    Routes,
)
from mangrove.model.federation import Federation
from mangrove.simulation.overlay_network import SimulatedOverlay

RATE_MSG_S = 200.0
JITTER_S = 0.001
LOOK_S = 0.005
SETTLE_S = 3.0


@dataclass(frozen=True, slots=True)
class TopicPhase:
    """One topic in one phase of one seed; times in milliseconds."""

    median_ms: float
    worst_ms: float
    in_time: float
    longest_gap_ms: float
    lost: int
    routes: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class PhaseRun:
    """One phase of one seed."""

    held: bool
    moved_ms: float
    """From the event until the routes were as expected, to stay; NaN if never, 0 in the first phase."""
    topics: dict[str, TopicPhase]


@dataclass(frozen=True)
class HarmonyRun:
    """One seed: its phases, and of the trace when each message was sent and how long it took."""

    seed: int
    phases: tuple[PhaseRun, ...]
    events_s: tuple[float, ...]
    """When each phase began, from the first message."""
    duplicates: int
    trace: dict[str, list[tuple[float, float]]] = field(default_factory=dict)


@dataclass(frozen=True)
class PhaseSummary:
    """One phase over all seeds."""

    name: str
    paper: str
    expectation: str
    held: int
    moved_ms: Estimate
    median_ms: dict[str, Estimate]
    worst_ms: dict[str, float]
    in_time: dict[str, float]
    longest_gap_ms: dict[str, float]
    lost: int
    routes: dict[str, tuple[tuple[str, ...], ...]]
    """Those of the first seed."""


@dataclass(frozen=True)
class HarmonyResult:
    """The scenario over seeds."""

    seeds: tuple[int, ...]
    phase_s: float
    duplicates: int
    phases: tuple[PhaseSummary, ...]
    first: HarmonyRun
    deadlines_ms: dict[str, float]

    def missed(self) -> list[str]:
        """In words, what did not go as the paper tells it."""
        lines = [
            f"{phase.name}: in {len(self.seeds) - phase.held} of {len(self.seeds)} seeds not so: "
            f"{phase.expectation}"
            for phase in self.phases
            if phase.held < len(self.seeds)
        ]
        lines += [f"{phase.name}: {phase.lost} messages lost" for phase in self.phases if phase.lost]
        if self.duplicates:
            lines.append(f"{self.duplicates} messages delivered twice")
        return lines


def run_harmony(
    federation: Federation,
    seeds: Sequence[int],
    phase_s: float = 3.0,
    on_seed: Callable[[int, int], None] | None = None,
) -> HarmonyResult:
    """The four phases for every seed, which moves the moments of the events and the jitter of the links."""
    runs: list[HarmonyRun] = []
    for done, seed in enumerate(seeds, start=1):
        runs.append(_run_seed(federation, seed, phase_s))
        if on_seed is not None:
            on_seed(done, len(seeds))
    deadlines = {c.match: c.deadline_ms for c in federation.topics.contracts if c.deadline_ms is not None}
    return HarmonyResult(
        tuple(seeds),
        phase_s,
        sum(run.duplicates for run in runs),
        tuple(_summary(script, [run.phases[i] for run in runs]) for i, script in enumerate(PHASES)),
        runs[0],
        deadlines,
    )


def _run_seed(federation: Federation, seed: int, phase_s: float) -> HarmonyRun:
    chance = random.Random(f"harmony {seed}")
    net = SimulatedOverlay(federation, seed, jitter_s=JITTER_S)
    for topic, receiver in RECEIVERS.items():
        net.subscribe(receiver, topic)
    net.run(SETTLE_S)
    begin = net.now
    length = len(PHASES) * phase_s + 0.1
    sent = {
        topic: [
            (begin + (step + offset) / RATE_MSG_S, f"{topic} {step}".encode())
            for step in range(int(length * RATE_MSG_S))
        ]
        for topic, offset in zip(RECEIVERS, (0.25, 0.75), strict=True)
    }

    def publish(topic: str, body: bytes) -> None:
        net.publish(SOURCE, topic, body)

    for topic, messages in sent.items():
        for time, body in messages:
            net.at(time, partial(publish, topic, body))
    events_s, moved, routes = [], [], []
    settled: Routes = {}
    for script in PHASES:
        if script.disturbance is not Disturbance.NOTHING:
            net.run(net.now + chance.uniform(0.0, 0.05))
        _disturb(net, script.disturbance)
        events_s.append(net.now - begin)
        moved.append(_wait(net, script, settled, begin + (len(events_s)) * phase_s))
        routes.append(_routes(net))
        settled = settled or routes[0]
    net.run(begin + length + 1.0)
    net.validate()
    bounds = [*events_s, length]
    phases = tuple(
        PhaseRun(
            script.holds(routes[i], settled),
            1000 * moved[i],
            {
                topic: _topic_phase(net, federation, topic, sent[topic], begin, bounds[i : i + 2], routes[i])
                for topic in RECEIVERS
            },
        )
        for i, script in enumerate(PHASES)
    )
    trace = {
        topic: [
            (time - begin, 1000 * (net.delivered_at.get((RECEIVERS[topic], body), float("nan")) - time))
            for time, body in messages
        ]
        for topic, messages in sent.items()
    }
    return HarmonyRun(seed, phases, tuple(events_s), sum(net.duplicates.values()), trace)


def _disturb(net: SimulatedOverlay, what: Disturbance) -> None:
    match what:
        case Disturbance.NOTHING:
            pass
        case Disturbance.SLOWED:
            net.link("seattle", "denver").delay_s = SLOWED_DELAY_MS / 1000
        case Disturbance.CUT:
            net.black_hole("seattle", "denver", True)
        case Disturbance.SITE_DIED:
            net.crash("denver", silent=True)


def _wait(net: SimulatedOverlay, script: PhaseScript, settled: Routes, until: float) -> float:
    """Let the phase pass; how long it took until the routes were as expected, and stayed so."""
    start, since = net.now, float("nan")
    while net.now < until - 1e-9:
        net.run(min(net.now + LOOK_S, until))
        if not script.holds(_routes(net), settled):
            since = float("nan")
        elif since != since:
            since = net.now - start
    return 0.0 if script.disturbance is Disturbance.NOTHING and since == since else since


def _routes(net: SimulatedOverlay) -> Routes:
    routes: dict[str, list[tuple[str, ...]]] = {topic: [] for topic in RECEIVERS}
    for route in net.engines[SOURCE].status(net.now).routes:
        if route.active and route.topic in routes:
            routes[route.topic].append(route.path)
    return {topic: tuple(sorted(paths)) for topic, paths in routes.items()}


def _topic_phase(
    net: SimulatedOverlay,
    federation: Federation,
    topic: str,
    sent: Sequence[tuple[float, bytes]],
    begin: float,
    bounds: Sequence[float],
    routes: Routes,
) -> TopicPhase:
    start, end = (begin + bound for bound in bounds)
    mine = [(time, body) for time, body in sent if start <= time < end]
    receiver = RECEIVERS[topic]
    arrived = [(time, net.delivered_at.get((receiver, body))) for time, body in mine]
    latency_ms = [1000 * (at - time) for time, at in arrived if at is not None]
    deadline_ms = federation.topics.contract_of(topic).deadline_ms or float("inf")
    moments = sorted(at for _, body in sent if (at := net.delivered_at.get((receiver, body))) is not None)
    gaps = [later - earlier for earlier, later in pairwise(moments) if start < later <= end]
    return TopicPhase(
        float(np.median(latency_ms)),
        max(latency_ms),
        sum(value <= deadline_ms for value in latency_ms) / len(mine),
        1000 * max(gaps),
        sum(at is None for _, at in arrived),
        routes[topic],
    )


def _summary(script: PhaseScript, runs: Sequence[PhaseRun]) -> PhaseSummary:
    def over(measure: Callable[[TopicPhase], float]) -> dict[str, list[float]]:
        return {topic: [measure(run.topics[topic]) for run in runs] for topic in RECEIVERS}

    return PhaseSummary(
        script.name,
        script.paper,
        script.expectation,
        sum(run.held for run in runs),
        estimate_known([run.moved_ms for run in runs]),
        {topic: estimate(values) for topic, values in over(lambda t: t.median_ms).items()},
        {topic: max(values) for topic, values in over(lambda t: t.worst_ms).items()},
        {topic: float(np.mean(values)) for topic, values in over(lambda t: t.in_time).items()},
        {topic: max(values) for topic, values in over(lambda t: t.longest_gap_ms).items()},
        sum(t.lost for run in runs for t in run.topics.values()),
        {topic: t.routes for topic, t in runs[0].topics.items()},
    )
