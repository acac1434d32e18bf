"""Topics with a mirror while brokers and hosts fail, beside a three-node NATS cluster under the same faults.

One domain on three hosts (network namespaces, so root is needed), 2,000 messages a second on each of three
topics: `mirror: true`, `mirror: standby` and no mirror. A broker is killed, frozen, or its host is cut off
without a word; head, primary and mirror broker in turn, each fault until 20 repetitions count. Those in which
our publisher itself paused for more than 20 ms are left out, and counted. On the same hosts runs a cluster of
three plain nats-servers with reconnecting nats-py clients, and the same happens to it in turn: each has the
machine for itself while it is struck.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import NamedTuple

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from mangrove.cli.output import stderr_console
from mangrove.cli.running import run_async
from mangrove.cli.tables.table import Table, bad, name_column, number_column
from mangrove.testbed.mirrors.account import PAUSE_MS, Fault, counting, totals
from mangrove.testbed.mirrors.series import NATIVE, RATE_MSG_S, FaultSeries, Series
from mangrove.testbed.mirrors.site import BOTH, PLAIN, STANDBY

REPETITIONS, QUICK_REPETITIONS = 20, 3
TITLES = {
    BOTH: "mirror: true",
    STANDBY: "mirror: standby",
    PLAIN: "no mirror",
    NATIVE: "NATS cluster, nats-py",
}


class Bar(NamedTuple):
    """What is promised of a stream: nothing lost, nothing twice, and no longer silence than this."""

    stream: str
    gap_ms: float


BARS = (Bar(BOTH, 50.0), Bar(STANDBY, 500.0))


def run(seed: int, quick: bool) -> dict[str, object]:
    """All faults; nothing is random."""
    wanted = QUICK_REPETITIONS if quick else REPETITIONS
    columns = (
        TextColumn("{task.description:<10}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[out]} left out"),
        TimeElapsedColumn(),
    )
    with (
        tempfile.TemporaryDirectory(prefix="mangrove-bench-") as directory,
        Progress(*columns, console=stderr_console()) as progress,
    ):
        bars = {fault: progress.add_task(fault, total=wanted, out=0) for fault in Fault}

        def note(fault: Fault, counted: int, left_out: int) -> None:
            progress.update(bars[fault], completed=counted, out=left_out)

        series = run_async(
            Series(Path(directory, "site"), Path(directory, "native"), wanted, note).run(),
            asyncio.new_event_loop,
        )
    faults = {each.fault.value: _summary(each) for each in series}
    return {
        "rate_msg_s": RATE_MSG_S,
        "pause_ms": PAUSE_MS,
        "wanted": wanted,
        "faults": faults,
        "series": msgspec.to_builtins(series),
    }


def _summary(series: FaultSeries) -> dict[str, object]:
    """Counts, totals by stream, and what the native cluster's silence is in silences of `mirror: true`."""
    counted = counting(series.repetitions)
    left_out = [each for each in series.repetitions if each not in counted]
    rows = totals(counted)
    return {
        "counted": len(counted),
        "left_out": len(left_out),
        "left_out_for_want_of_a_processor": sum(each.waited_ms > each.paused_ms / 2 for each in left_out),
        "not_begun": series.not_begun,
        "streams": msgspec.to_builtins(rows),
        "gap_ratio": rows[NATIVE].median_gap_ms / max(rows[BOTH].median_gap_ms, 1e-9) if rows else None,
    }


def _series(result: dict[str, object]) -> list[FaultSeries]:
    return msgspec.convert(result["series"], list[FaultSeries])


def missed(result: dict[str, object]) -> list[str]:
    """The bars; streams without a mirror and the native cluster's are reported only."""
    wanted = msgspec.convert(result["wanted"], int)
    problems = []
    for series in _series(result):
        counted = counting(series.repetitions)
        if len(counted) < wanted:
            problems.append(f"{series.fault}: only {len(counted)} of {wanted} repetitions count")
        rows = totals(counted)
        for stream, gap_ms in BARS if rows else ():
            row = rows[stream]
            where = f"{series.fault}, {TITLES[stream]}"
            if row.lost or row.duplicated:
                problems.append(f"{where}: {row.lost:,} lost, {row.duplicated:,} duplicated")
            if row.longest_gap_ms >= gap_ms:
                problems.append(f"{where}: a gap of {row.longest_gap_ms:.0f} ms, the bar is {gap_ms:g} ms")
    return problems


def render(result: dict[str, object], console: Console) -> None:
    """A table for each fault, and the ratios."""
    bars = dict(BARS)
    for series in _series(result):
        counted = counting(series.repetitions)
        summary = _summary(series)
        table = Table(
            f"{series.fault}: {len(counted)} repetitions count, {summary['left_out']} left out",
            name_column("stream"),
            *map(number_column, ("sent", "lost", "twice", "order", "median gap", "longest")),
        )
        for stream, row in totals(counted).items():
            gap = f"{row.longest_gap_ms:,.0f} ms"
            table.add(
                TITLES[stream],
                f"{row.sent:,}",
                bad(f"{row.lost:,}") if row.lost else "0",
                bad(f"{row.duplicated:,}") if row.duplicated else "0",
                f"{row.out_of_order:,}",
                f"{row.median_gap_ms:,.0f} ms",
                bad(gap) if row.longest_gap_ms >= bars.get(stream, float("inf")) else gap,
            )
        table.show(console)
        ratio = summary["gap_ratio"]
        if ratio is not None:
            console.print(f"native median gap over that of mirror: true: {ratio:.1f}")
    console.print(
        f"order: came after a later one; gap: longest silence of a repetition. A repetition is left out if "
        f"our publisher itself paused for more than {PAUSE_MS:g} ms, {_starved(result)}."
    )


def _starved(result: dict[str, object]) -> str:
    summaries = [_summary(each) for each in _series(result)]
    left_out = sum(msgspec.convert(each["left_out"], int) for each in summaries)
    starved = sum(msgspec.convert(each["left_out_for_want_of_a_processor"], int) for each in summaries)
    return f"mostly for want of a processor in {starved} of {left_out}" if left_out else "and none was"
