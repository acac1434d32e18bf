"""Delivery while a link and a site of a ring fail, beside native NATS leaf nodes on the same emulated link.

Four sites a – b – c – d – a, joined by links of 10 ms (c – d has 11 ms: the way from a to c is then over b).
Each topic carries 1,000 messages a second of 256 bytes, each numbered and stamped, and accounted for:

- `paths: 2` and `paths: 1`, from a to its neighbour d;
- `default`, without any contract, from a to d;
- `transit`, with one path, from a to c over b.

In one run: all is well; the link a – d silently swallows everything (no reset); it returns; the site b, which
is on the detour from a to d, has all of its processes killed at once; it returns.

Beside it, at the same time, with the same load and the same black hole: two nats-servers joined by a leaf
node over a link of 10 ms. A ring of leaf nodes is impossible (servers refuse the loop, as messages would go
round), so the native pair has no second way, and no transit site to kill.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import msgspec
from rich.console import Console

from mangrove.agent.inspection import inspect, wait_for_interest
from mangrove.cli.measurement.phase_figures import own_pause_ms, show_phases
from mangrove.config import parse_federation
from mangrove.errors import MangroveError
from mangrove.model.endpoints import DomainEndpoints
from mangrove.testbed.accounting import Figures, Record, Span, figures
from mangrove.testbed.load import PLAIN_OPTIONS, BrokerAddress
from mangrove.testbed.local_federation import LocalFederation
from mangrove.testbed.native_pair import NativePair
from mangrove.testbed.probe_traffic import ProbeTopic, ProbeTraffic
from mangrove.testbed.shaping import Shape

RING = """
federation: ring
domains: {a: {}, b: {}, c: {}, d: {}}
links:
  - {between: [a, b], delay_ms: 10}
  - {between: [b, c], delay_ms: 10}
  - {between: [c, d], delay_ms: 11}
  - {between: [d, a], delay_ms: 10}
topics:
  - {match: "double.>", paths: 2, deadline_ms: 100}
  - {match: "single.>", paths: 1, deadline_ms: 100}
"""
NATIVE_LINK = Shape(delay_ms=10)
RATE_MSG_S = 1000.0
LATE_AFTER_MS = 100.0
# The account of a failure begins this long before it: what was under way when it happened is part of it.
UNDER_WAY_NS = 100_000_000
HEALTHY_TIMEOUT_S = 30.0

TWO_PATHS, ONE_PATH, DEFAULT, TRANSIT, NATIVE = "paths: 2", "paths: 1", "default", "transit", "native"
SUBJECTS = {
    TWO_PATHS: "double.probe",
    ONE_PATH: "single.probe",
    DEFAULT: "plain.probe",
    TRANSIT: "single.transit",
}
STEADY, BLACK_HOLE, LINK_RETURNS = "steady", "black hole", "link returns"
SITE_DIES, SITE_RETURNS = "transit site dies", "site returns"
NATIVE_PHASES = (STEADY, BLACK_HOLE, LINK_RETURNS)

# The bars: where nothing may be lost, where nothing may come twice or out of order, where no silence may last
# so long.
ONCE = [(phase, topic) for phase in (BLACK_HOLE, LINK_RETURNS) for topic in (TWO_PATHS, ONE_PATH, DEFAULT)]
COMPLETE = [*ONCE, (SITE_DIES, TWO_PATHS)]
GAP_BARS_MS = [
    (BLACK_HOLE, ONE_PATH, 200.0),
    (BLACK_HOLE, DEFAULT, 200.0),
    (LINK_RETURNS, ONE_PATH, 100.0),
    (LINK_RETURNS, TWO_PATHS, 100.0),
    (LINK_RETURNS, DEFAULT, 100.0),
]


class Schedule(NamedTuple):
    """How long each phase lasts, in seconds."""

    warm_up: float = 2.0
    steady: float = 5.0
    black_hole: float = 30.0
    link_returns: float = 10.0
    site_dies: float = 10.0
    site_returns: float = 10.0


QUICK = Schedule(steady=2.0, black_hole=5.0, link_returns=3.0, site_dies=4.0, site_returns=4.0)


def run(seed: int, quick: bool) -> dict[str, object]:
    """One run through all phases. The seed is the emulator's; these links have neither jitter nor loss."""
    schedule = QUICK if quick else Schedule()
    with tempfile.TemporaryDirectory(prefix="mangrove-bench-") as directory:
        phases = asyncio.run(_run(Path(directory), schedule, seed))
    return {
        "seed": seed,
        "rate_msg_s": RATE_MSG_S,
        "late_after_ms": LATE_AFTER_MS,
        "black_hole_s": schedule.black_hole,
        "phases": phases,
    }


async def _run(directory: Path, schedule: Schedule, seed: int) -> dict[str, dict[str, Figures]]:
    federation = parse_federation(RING, "ring").require()
    async with (
        LocalFederation(federation, directory / "ring", ephemeral=True, seed=seed, agents=False) as ring,
        NativePair(directory / "native", NATIVE_LINK, seed) as native,
        ProbeTraffic(_head(ring.endpoints["a"]), _topics(ring)) as probes,
        ProbeTraffic(native.near, [ProbeTopic(NATIVE, RATE_MSG_S, native.far)]) as native_probes,
    ):
        await asyncio.gather(probes.subscribe(), native_probes.subscribe())
        await asyncio.gather(_settle(ring), native.wants(NATIVE))
        await asyncio.gather(probes.publish(), native_probes.publish())
        await asyncio.sleep(schedule.warm_up)
        spans = await _disturb(ring, native, native_probes, schedule)
        probes.stop_publishing()
        records = await native_probes.collect() | await probes.collect()
    return _account(spans, records)


def _head(endpoints: DomainEndpoints) -> BrokerAddress:
    return (endpoints.head.host, endpoints.head.client_port, PLAIN_OPTIONS)


def _topics(ring: LocalFederation) -> list[ProbeTopic]:
    awaited_at = {TWO_PATHS: "d", ONE_PATH: "d", DEFAULT: "d", TRANSIT: "c"}
    return [
        ProbeTopic(SUBJECTS[title], RATE_MSG_S, _head(ring.endpoints[domain]))
        for title, domain in awaited_at.items()
    ]


async def _settle(ring: LocalFederation) -> None:
    """All links are up, and everybody knows who wants what."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + HEALTHY_TIMEOUT_S
    while not (await inspect(ring.runtime())).healthy:
        if loop.time() > deadline:
            raise MangroveError("the ring did not come up")
        await asyncio.sleep(0.1)
    if not await wait_for_interest(ring.runtime(), {"d": 3, "c": 1}):
        raise MangroveError("the subscriptions did not reach all sites")


async def _disturb(
    ring: LocalFederation, native: NativePair, native_probes: ProbeTraffic, schedule: Schedule
) -> dict[str, Span]:
    """Go through the phases; return when each was."""
    starts: dict[str, int] = {}

    def begins(phase: str, *, failure: bool = False) -> None:
        starts[phase] = time.monotonic_ns() - (UNDER_WAY_NS if failure else 0)

    async def swallow(swallows: bool) -> None:
        await asyncio.gather(ring.reshape("a", "d", black_hole=swallows), native.black_hole(swallows))

    begins(STEADY)
    await asyncio.sleep(schedule.steady)
    begins(BLACK_HOLE, failure=True)
    await swallow(True)
    await asyncio.sleep(schedule.black_hole)
    begins(LINK_RETURNS)
    await swallow(False)
    await asyncio.sleep(schedule.link_returns)
    native_probes.stop_publishing()
    begins(SITE_DIES, failure=True)
    await ring.sites["b"].kill()
    await asyncio.sleep(schedule.site_dies)
    begins(SITE_RETURNS)
    await ring.sites["b"].start()
    await asyncio.sleep(schedule.site_returns)
    ends = [*list(starts.values())[1:], time.monotonic_ns()]
    return {phase: Span(start, end) for (phase, start), end in zip(starts.items(), ends, strict=True)}


def _account(spans: dict[str, Span], records: dict[str, Record]) -> dict[str, dict[str, Figures]]:
    """Figures by phase and topic."""
    phases: dict[str, dict[str, Figures]] = {}
    for phase, span in spans.items():
        subjects = SUBJECTS | ({NATIVE: NATIVE} if phase in NATIVE_PHASES else {})
        phases[phase] = {
            title: figures(records[subject], span, LATE_AFTER_MS) for title, subject in subjects.items()
        }
    return phases


def _phases(result: dict[str, object]) -> dict[str, dict[str, Figures]]:
    return msgspec.convert(result["phases"], dict[str, dict[str, Figures]])


def missed(result: dict[str, object]) -> list[str]:
    """What is promised for one and for two paths; the topic over the dying site is reported only."""
    phases = _phases(result)
    problems: list[str] = []
    for phase, topic in COMPLETE:
        row = phases[phase][topic]
        if row.lost:
            problems.append(f"{phase}, {topic}: {row.lost} of {row.sent} messages lost")
    for phase, topic in ONCE:
        row = phases[phase][topic]
        if row.duplicated:
            problems.append(f"{phase}, {topic}: {row.duplicated} messages delivered again")
        # A deadline is stronger than order: others go on without what is late.
        if row.out_of_order > (0 if topic == DEFAULT else row.late):
            problems.append(f"{phase}, {topic}: {row.out_of_order} messages out of order")
    late = phases[BLACK_HOLE][TWO_PATHS].late
    if late:
        problems.append(f"{BLACK_HOLE}, {TWO_PATHS}: {late} messages took over {LATE_AFTER_MS:g} ms")
    for phase, topic, bar_ms in GAP_BARS_MS:
        gap_ms = phases[phase][topic].longest_gap_ms
        if gap_ms >= bar_ms:
            problems.append(f"{phase}, {topic}: a gap of {gap_ms:,.0f} ms, the bar is {bar_ms:g} ms")
    return problems


def render(result: dict[str, object], console: Console) -> None:
    """One table, a section for each phase."""
    phases = _phases(result)
    show_phases(msgspec.convert(result["rate_msg_s"], float), phases, console, late=True)
    pause = own_pause_ms(phases)
    console.print(
        f"order: came after a later one; gap: longest silence at the subscriber (the publishers' own: "
        f"{pause:,.0f} ms); worst, p50: "
        f"latency; late: over {LATE_AFTER_MS:g} ms. Black hole: {result['black_hole_s']:g} s on the link "
        f"a – d. Transit site: b. Seed {result['seed']}."
    )
    hole = phases[BLACK_HOLE]
    native, ours = hole[NATIVE].longest_gap_ms, hole[ONE_PATH].longest_gap_ms
    console.print(
        f"longest gap in the black hole: native leaf node {native:,.0f} ms, paths: 1 {ours:,.0f} ms "
        f"(ratio {native / max(ours, 0.001):.1f})"
    )
