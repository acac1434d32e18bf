"""Contracts leave an endangered region before it fails, and return, beside a topic without a contract.

Five sites: a and d, and between them m in the middle (the fastest way), n in the north and s in the south.
From a to d, 1,000 messages a second of 256 bytes in all, each numbered, stamped and accounted for, on:

- `deadline`, `paths: 2` and `contract` (nothing but a contract) leave the region around m when
  `mangrove avoid` declares it endangered;
- `none` has no contract and stays.

In one run: all is well; the region around m is declared endangered; all processes of m are killed at once; m
returns; the region is declared safe. The seconds until all have left, or returned, are counted from the
command until every gateway says so, looking included.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import msgspec
from rich.console import Console

from mangrove.agent.avoidance import Avoidance, settle, tell
from mangrove.agent.inspection import inspect, wait_for_interest
from mangrove.cli.measurement.phase_figures import own_pause_ms, show_phases
from mangrove.cli.running import run_async
from mangrove.config import parse_federation
from mangrove.errors import MangroveError
from mangrove.model.endpoints import DomainEndpoints
from mangrove.model.questions.endangered import AvoidRequest
from mangrove.testbed.accounting import Figures, Record, Span, figures
from mangrove.testbed.load import PLAIN_OPTIONS, BrokerAddress
from mangrove.testbed.local_federation import LocalFederation
from mangrove.testbed.probe_traffic import ProbeTopic, ProbeTraffic

MESH = """
federation: mesh
domains:
  a: {location: [0, 0]}
  n: {location: [10, 10]}
  m: {location: [0, 10]}
  s: {location: [-10, 10]}
  d: {location: [0, 20]}
links:
  - {between: [a, m], delay_ms: 10}
  - {between: [m, d], delay_ms: 10}
  - {between: [a, n], delay_ms: 15}
  - {between: [n, d], delay_ms: 15}
  - {between: [a, s], delay_ms: 18}
  - {between: [s, d], delay_ms: 18}
topics:
  - {match: "timely.>", deadline_ms: 150}
  - {match: "double.>", paths: 2}
  - {match: "listed.>"}
"""
REGION = AvoidRequest(name="storm", centre=(0.0, 10.0), radius_km=300.0, for_s=3600.0)
RATE_MSG_S = 250.0
LATE_AFTER_MS = 150.0
HEALTHY_TIMEOUT_S = 30.0
UNDER_WAY_NS = 100_000_000
SETTLE_S = 10.0
BAR_S = 1.0

SUBJECTS = {
    "deadline": "timely.probe",
    "paths: 2": "double.probe",
    "contract": "listed.probe",
    "none": "plain.probe",
}
CONTRACTS = ("deadline", "paths: 2", "contract")
STEADY, LEAVING, REGION_FAILS = "steady", "leaving", "region fails"
SITE_RETURNS, RETURNING = "site returns", "returning"


class Schedule(NamedTuple):
    """How long each phase lasts, in seconds."""

    warm_up: float = 2.0
    steady: float = 4.0
    leaving: float = 8.0
    region_fails: float = 8.0
    site_returns: float = 10.0
    returning: float = 8.0


QUICK = Schedule(warm_up=1.0, steady=1.0, leaving=2.0, region_fails=2.0, site_returns=4.0, returning=2.0)


def run(seed: int, quick: bool) -> dict[str, object]:
    """One run through all phases. The seed is the emulator's; these links have neither jitter nor loss."""
    schedule = QUICK if quick else Schedule()
    with tempfile.TemporaryDirectory(prefix="mangrove-bench-") as directory:
        measured = run_async(_run(Path(directory), schedule, seed), asyncio.new_event_loop)
    return {"seed": seed, "rate_msg_s": RATE_MSG_S, **measured}


async def _run(directory: Path, schedule: Schedule, seed: int) -> dict[str, object]:
    federation = parse_federation(MESH, "mesh").require()
    async with (
        LocalFederation(federation, directory / "mesh", ephemeral=True, seed=seed, agents=False) as mesh,
        ProbeTraffic(_head(mesh.endpoints["a"]), _topics(mesh)) as probes,
    ):
        await probes.subscribe()
        await _healthy(mesh)
        if not await wait_for_interest(mesh.runtime(), {"d": len(SUBJECTS)}):
            raise MangroveError("the subscriptions did not reach all sites")
        await probes.publish()
        await asyncio.sleep(schedule.warm_up)
        spans, moves = await _disturb(mesh, schedule)
        records = await probes.collect()
    return {"phases": _account(spans, records), **moves}


def _head(endpoints: DomainEndpoints) -> BrokerAddress:
    return (endpoints.head.host, endpoints.head.client_port, PLAIN_OPTIONS)


def _topics(mesh: LocalFederation) -> list[ProbeTopic]:
    return [ProbeTopic(subject, RATE_MSG_S, _head(mesh.endpoints["d"])) for subject in SUBJECTS.values()]


async def _healthy(mesh: LocalFederation) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + HEALTHY_TIMEOUT_S
    while not (await inspect(mesh.runtime())).healthy:
        if loop.time() > deadline:
            raise MangroveError("the mesh did not come up")
        await asyncio.sleep(0.1)


async def _disturb(mesh: LocalFederation, schedule: Schedule) -> tuple[dict[str, Span], dict[str, object]]:
    """Go through the phases; return when each was, and how long the moves took."""
    starts: dict[str, int] = {}

    def begins(phase: str, *, failure: bool = False) -> None:
        starts[phase] = time.monotonic_ns() - (UNDER_WAY_NS if failure else 0)

    begins(STEADY)
    await asyncio.sleep(schedule.steady)
    begins(LEAVING, failure=True)
    left_s, after = await _move(mesh, REGION)
    await asyncio.sleep(schedule.leaving)
    begins(REGION_FAILS, failure=True)
    await mesh.sites["m"].kill()
    await asyncio.sleep(schedule.region_fails)
    begins(SITE_RETURNS)
    await mesh.sites["m"].start()
    await _healthy(mesh)
    await asyncio.sleep(schedule.site_returns)
    begins(RETURNING, failure=True)
    returned_s, _ = await _move(mesh, AvoidRequest(name=REGION.name))
    await asyncio.sleep(schedule.returning)
    ends = [*list(starts.values())[1:], time.monotonic_ns()]
    spans = {phase: Span(start, end) for (phase, start), end in zip(starts.items(), ends, strict=True)}
    exposed = [f"{path.topic}: {path.reason}" for _, path in after.exposed]
    return spans, {"left_s": left_s, "returned_s": returned_s, "exposed": exposed}


async def _move(mesh: LocalFederation, request: AvoidRequest) -> tuple[float | None, Avoidance]:
    """Tell the federation; how long until all had moved, None if they had not."""
    clock = asyncio.get_running_loop().time
    began = clock()
    await tell(mesh.runtime(), request)
    found = await settle(
        mesh.runtime(), request.name, endangered=request.centre is not None, timeout_s=SETTLE_S
    )
    return (clock() - began if found.settled else None), found


def _account(spans: dict[str, Span], records: dict[str, Record]) -> dict[str, dict[str, Figures]]:
    return {
        phase: {title: figures(records[subject], span, LATE_AFTER_MS) for title, subject in SUBJECTS.items()}
        for phase, span in spans.items()
    }


def _phases(result: dict[str, object]) -> dict[str, dict[str, Figures]]:
    return msgspec.convert(result["phases"], dict[str, dict[str, Figures]])


def missed(result: dict[str, object]) -> list[str]:
    """Contracts leave and return within a second, and lose, double or disorder nothing at all."""
    problems: list[str] = []
    for phase, topics in _phases(result).items():
        for topic in CONTRACTS:
            row = topics[topic]
            # A deadline is stronger than order: others go on without what is late.
            excused = row.late if topic == "deadline" else 0
            for count, what in (
                (row.lost, "lost"),
                (row.duplicated, "delivered again"),
                (max(row.out_of_order - excused, 0), "out of order"),
            ):
                if count:
                    problems.append(f"{phase}, {topic}: {count} of {row.sent} messages {what}")
    for what, key in (("left", "left_s"), ("returned", "returned_s")):
        seconds = msgspec.convert(result[key], float | None)
        if seconds is None or seconds > BAR_S:
            told = "not at all" if seconds is None else f"after {seconds:.2f} s"
            problems.append(f"all contracts had {what} {told}; the bar is {BAR_S:g} s")
    return problems


def render(result: dict[str, object], console: Console) -> None:
    """One table, a section for each phase, and how long the moves took."""
    phases = _phases(result)
    show_phases(msgspec.convert(result["rate_msg_s"], float), phases, console, late=False)
    fails = phases[REGION_FAILS]
    worst = max(fails[topic].longest_gap_ms for topic in CONTRACTS)
    pause = own_pause_ms(phases)
    console.print(
        f"order: came after a later one; gap: longest silence at the subscriber (the publisher's own: "
        f"{pause:,.0f} ms); worst, p50: latency."
    )
    console.print(
        f"all contracts had left after {_seconds(result['left_s'])}, and returned after "
        f"{_seconds(result['returned_s'])} (bar {BAR_S:g} s). When the region failed, the longest silence "
        f"was {fails['none'].longest_gap_ms:,.0f} ms without a contract and {worst:,.0f} ms with one (ratio "
        f"{fails['none'].longest_gap_ms / max(worst, 0.001):.1f}). Seed {result['seed']}."
    )


def _seconds(value: object) -> str:
    return f"{value:.2f} s" if isinstance(value, float) else "never"
