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
from pathlib import Path

import msgspec
from rich.console import Console

from mangrove.cli.measurement.phase_figures import own_pause_ms, show_phases
from mangrove.cli.running import run_async
from mangrove.testbed.accounting import Figures, figures
from mangrove.testbed.pairs.native_pair import NativePair
from mangrove.testbed.probe_traffic import ProbeTopic, ProbeTraffic
from mangrove.testbed.ring.scenario import (
    BLACK_HOLE,
    LATE_AFTER_MS,
    LINK_RETURNS,
    ONE_PATH,
    QUICK,
    RATE_MSG_S,
    STEADY,
    Schedule,
    account,
    running_ring,
    shortfalls,
)
from mangrove.testbed.shaping import Shape

NATIVE_LINK = Shape(delay_ms=10)
NATIVE = "native"
NATIVE_PHASES = (STEADY, BLACK_HOLE, LINK_RETURNS)


def run(seed: int, quick: bool) -> dict[str, object]:
    """One run through all phases. The seed is the emulator's; these links have neither jitter nor loss."""
    schedule = QUICK if quick else Schedule()
    with tempfile.TemporaryDirectory(prefix="mangrove-bench-") as directory:
        phases = run_async(_run(Path(directory), schedule, seed), asyncio.new_event_loop)
    return {
        "seed": seed,
        "rate_msg_s": RATE_MSG_S,
        "late_after_ms": LATE_AFTER_MS,
        "black_hole_s": schedule.black_hole,
        "phases": phases,
    }


async def _run(directory: Path, schedule: Schedule, seed: int) -> dict[str, dict[str, Figures]]:
    async with (
        running_ring(directory, seed) as ring,
        NativePair(directory / "native", NATIVE_LINK, seed) as native,
        ProbeTraffic(ring.head("a"), ring.topics()) as probes,
        ProbeTraffic(native.near, [ProbeTopic(NATIVE, RATE_MSG_S, native.far)]) as native_probes,
    ):
        await asyncio.gather(probes.subscribe(), native_probes.subscribe())
        await asyncio.gather(ring.settle(), native.wants(NATIVE))
        await asyncio.gather(probes.publish(), native_probes.publish())
        await asyncio.sleep(schedule.warm_up)
        spans = await ring.disturb(schedule, native.black_hole, native_probes.stop_publishing)
        probes.stop_publishing()
        records = await native_probes.collect() | await probes.collect()
    phases = account(spans, records)
    for phase in NATIVE_PHASES:
        phases[phase][NATIVE] = figures(records[NATIVE], spans[phase], LATE_AFTER_MS)
    return phases


def _phases(result: dict[str, object]) -> dict[str, dict[str, Figures]]:
    return msgspec.convert(result["phases"], dict[str, dict[str, Figures]])


def missed(result: dict[str, object]) -> list[str]:
    """What is promised for one and for two paths; the topic over the dying site is reported only."""
    return shortfalls(_phases(result))


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
