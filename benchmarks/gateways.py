"""A head or a gateway that dies between two domains: what streams with and without a mirror notice.

Two domains with two edges and `gateways: 2` each, joined by a link of 5 ms, on loopback. 1,000 messages a
second on each of three topics go from one to the other: `mirror: true`, `mirror: standby` and no mirror. In
the publisher's domain the head is killed, then the gateway that carries, then it is frozen, each until ten
repetitions count: those in which the publisher itself paused for more than 150 ms are left out.
The ratio is the gap without a mirror over that with one.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from statistics import median

import msgspec
from rich.console import Console
from rich.progress import Progress

from mangrove.cli.output import stderr_console
from mangrove.cli.running import run_async
from mangrove.cli.tables.table import Table, bad, name_column, number_column
from mangrove.testbed.mirrors.pair import RATE_MSG_S, PairFault, PairRepetition, PairSeries
from mangrove.testbed.mirrors.site import BOTH, PLAIN, STANDBY

REPETITIONS, QUICK_REPETITIONS = 10, 2
TITLES = {BOTH: "mirror: true", STANDBY: "mirror: standby", PLAIN: "no mirror"}
GAP_BARS_MS = {
    PairFault.HEAD_KILLED: 2000.0,
    PairFault.GATEWAY_KILLED: 300.0,
    PairFault.GATEWAY_FROZEN: 2000.0,
}
"""Of all streams: within so long everything goes on."""


def run(seed: int, quick: bool) -> dict[str, object]:
    """All faults."""
    repetitions = QUICK_REPETITIONS if quick else REPETITIONS
    with (
        tempfile.TemporaryDirectory(prefix="mangrove-bench-") as directory,
        Progress(console=stderr_console()) as progress,
    ):
        bars = {fault: progress.add_task(f"{fault:<15}", total=repetitions) for fault in PairFault}

        def note(fault: PairFault, counted: int) -> None:
            progress.update(bars[fault], completed=counted)

        series = PairSeries(Path(directory), repetitions, note)
        done = run_async(series.run(), asyncio.new_event_loop)
    return {"rate_msg_s": RATE_MSG_S, "repetitions": msgspec.to_builtins(done)}


def _rows(result: dict[str, object], fault: PairFault) -> tuple[list[PairRepetition], int]:
    """Repetitions that count, and how many were left out, as the publisher itself paused."""
    found = msgspec.convert(result["repetitions"], list[PairRepetition])
    mine = [each for each in found if each.fault is fault]
    counted = [each for each in mine if each.counts]
    return counted, len(mine) - len(counted)


def missed(result: dict[str, object]) -> list[str]:
    """Nothing twice anywhere, nothing lost with a mirror that is always used, and all goes on in time."""
    problems = []
    for fault, gap_bar_ms in GAP_BARS_MS.items():
        counted, _ = _rows(result, fault)
        if not counted:
            problems.append(f"{fault}: no repetition counts")
        for stream, title in TITLES.items() if counted else ():
            rows = [each.figures[stream] for each in counted]
            lost, twice = sum(row.lost for row in rows), sum(row.duplicated for row in rows)
            gap_ms = max(row.longest_gap_ms for row in rows)
            if twice or (lost and stream == BOTH):
                problems.append(f"{fault}, {title}: {lost:,} lost, {twice:,} duplicated")
            if gap_ms >= gap_bar_ms:
                problems.append(f"{fault}, {title}: a gap of {gap_ms:,.0f} ms, the bar is {gap_bar_ms:g} ms")
    return problems


def render(result: dict[str, object], console: Console) -> None:
    """A table for each fault."""
    for fault in PairFault:
        counted, left_out = _rows(result, fault)
        table = Table(
            f"{fault}: {len(counted)} repetitions count, {left_out} left out",
            name_column("stream"),
            *map(number_column, ("sent", "lost", "twice", "order", "median gap", "longest")),
        )
        gaps_ms = {}
        for stream, title in TITLES.items() if counted else ():
            rows = [each.figures[stream] for each in counted]
            lost, twice = sum(row.lost for row in rows), sum(row.duplicated for row in rows)
            gaps_ms[stream] = median(row.longest_gap_ms for row in rows)
            table.add(
                title,
                f"{sum(row.sent for row in rows):,}",
                bad(f"{lost:,}") if lost else "0",
                bad(f"{twice:,}") if twice else "0",
                f"{sum(row.out_of_order for row in rows):,}",
                f"{gaps_ms[stream]:,.0f} ms",
                f"{max(row.longest_gap_ms for row in rows):,.0f} ms",
            )
        table.show(console)
        if gaps_ms:
            ratio = gaps_ms[PLAIN] / max(gaps_ms[BOTH], 1e-9)
            console.print(f"median gap without a mirror over that of mirror: true: {ratio:.1f}")
