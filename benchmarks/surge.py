"""Bursts overload an edge: how soon it is seen and over, and what becomes of messages while clients move.

A head with four edges and 200 SDK subscribers of 100 topics at 5,000 messages a second: a burst brings one
edge 12 % beyond its configured capacity. Three times: as it is, with the agent killed (-9) as soon as clients
move, and with one edge whose neighbour domain takes the load. The ratio is the most delayed message of moved
subscribers over that of subscribers that stayed, in the same run; how long a move holds messages back
(T_unexpected of ePEER's model) is what the clients report.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import msgspec
from rich.console import Console

from mangrove.cli.running import run_async
from mangrove.cli.tables.table import Table, name_column, number_column
from mangrove.testbed.surge.scenario import Surge, SurgeReport
from mangrove.testbed.surge.workload import SurgePlan, draw_plan

DETECTED_BAR_S = 3.0
RELIEVED_BAR_S = 10.0
BURST_S, QUICK_BURST_S = 15.0, 12.0


def run(seed: int, quick: bool) -> dict[str, object]:
    """All three, one after the other; with `quick` the first two, with one burst."""
    cases: dict[str, tuple[SurgePlan, bool, int]] = {
        "in the domain": (draw_plan(seed=seed), False, 1 if quick else 2),
        "agent killed": (draw_plan(seed=seed), True, 1 if quick else 2),
    }
    if not quick:
        cases["to a neighbour"] = (draw_plan(seed=seed, edges=1, neighbour=True), False, 1)
    reports = {}
    for name, (plan, kill_agent, bursts) in cases.items():
        with tempfile.TemporaryDirectory(prefix="mangrove-bench-") as directory:
            surge = Surge(plan, Path(directory), kill_agent=kill_agent, bursts=bursts)
            reports[name] = run_async(surge.run(QUICK_BURST_S if quick else BURST_S), asyncio.new_event_loop)
    return {"cases": {name: msgspec.to_builtins(report) for name, report in reports.items()}}


def _reports(result: dict[str, object]) -> dict[str, SurgeReport]:
    return msgspec.convert(result["cases"], dict[str, SurgeReport])


def render(result: dict[str, object], console: Console) -> None:
    """A line for each burst, and the account of each case."""
    reports = _reports(result)
    bursts = Table(
        "Bursts",
        name_column("case"),
        *map(number_column, ("peak", "seen after", "over after", "topics moved", "held ms")),
    )
    account = Table(
        "Messages",
        name_column("case"),
        *map(number_column, ("deliveries", "lost", "twice", "out of order", "clients moved", "delay ratio")),
    )
    for name, report in reports.items():
        for burst in report.bursts:
            bursts.add(
                name,
                f"{burst.peak_utilisation:.0%}",
                _seconds(burst.detected_s),
                _seconds(burst.relieved_s),
                str(len(burst.moves)),
                f"{burst.held_ms:.0f}",
            )
        figures = report.account
        account.add(
            name,
            f"{figures.delivered:,}",
            f"{figures.lost:,}",
            f"{figures.duplicated:,}",
            f"{figures.reordered:,}",
            str(figures.moved),
            f"{figures.longest_moved_ms / max(figures.longest_stayed_ms, 1e-9):.2f}",
        )
    bursts.show(console)
    account.show(console)


def _seconds(seconds: float | None) -> str:
    return "never" if seconds is None else f"{seconds:.1f} s"


def missed(result: dict[str, object]) -> list[str]:
    """The bars."""
    lines = []
    for name, report in _reports(result).items():
        figures = report.account
        if not figures.exact:
            lines.append(
                f"{name}: {figures.lost} lost, {figures.duplicated} twice, {figures.reordered} out of order"
            )
        for burst in report.bursts:
            if burst.detected_s is None or burst.detected_s > DETECTED_BAR_S:
                lines.append(f"{name}: overload seen after {_seconds(burst.detected_s)}")
            if burst.relieved_s is None or burst.relieved_s > RELIEVED_BAR_S:
                lines.append(f"{name}: overload over after {_seconds(burst.relieved_s)}")
    return lines
