"""Edges lose most of their bandwidth under load: who is heard with congestion control, and without it.

A head and edges whose lines are really narrowed to 0.3 (an emulator in front of each broker), with alerts
that are protected, and publishers of whom half are good, a quarter medium and a quarter useless and
overactive. The same traffic with and without control, one after the other; the ratio is that of useful
messages delivered in a second. In `no room` both edges are cut, in `some room` one is, and balancing can move
a part of its load to the other: control takes the rest.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import msgspec
from rich.console import Console

from mangrove.cli.running import run_async
from mangrove.cli.tables.table import Table, name_column, number_column
from mangrove.model.congestion.parameters import Mode
from mangrove.testbed.damage.account import ratio
from mangrove.testbed.damage.scenario import Damage, DamageReport
from mangrove.testbed.damage.workload import draw_plan

LEFT = 0.3
BELOW_BAR_S = 5.0
LIFTED_BAR_S = 15.0
AGAIN_BAR = 0.1
"""Of the time while damaged: how long brokers may be measured above the threshold once they were below."""
USEFUL_BARS = {"no room": 1.3, "some room": 1.1}
"""How many times as many useful messages; where balancing has room, it alone delivers most of them."""
PROTECTED = "alert"
DAMAGED_S, QUICK_DAMAGED_S = 25.0, 15.0
NO_ROOM, SOME_ROOM = "no room", "some room"
WITHOUT, WITH = "without control", "with control"
CASES = {NO_ROOM: (0.82, 2), SOME_ROOM: (0.75, 1)}
"""How much of its bandwidth an edge uses before, and how many of two edges are cut."""


def run(seed: int, quick: bool) -> dict[str, object]:
    """Both cases without and with control; with `quick` the first alone, and shorter."""
    cases: dict[str, dict[str, object]] = {}
    for name, (utilisation, damaged) in CASES.items():
        if quick and name != NO_ROOM:
            continue
        plan = draw_plan(seed=seed, utilisation=utilisation)
        cases[name] = {}
        for label, mode in ((WITHOUT, Mode.OFF), (WITH, Mode.CONGESTED)):
            with tempfile.TemporaryDirectory(prefix="mangrove-bench-") as directory:
                scenario = Damage(plan, Path(directory), mode=mode, damage=LEFT, damaged=damaged)
                report = run_async(
                    scenario.run(QUICK_DAMAGED_S if quick else DAMAGED_S), asyncio.new_event_loop
                )
            cases[name][label] = msgspec.to_builtins(report)
    return {"cases": cases}


def _cases(result: dict[str, object]) -> dict[str, dict[str, DamageReport]]:
    return msgspec.convert(result["cases"], dict[str, dict[str, DamageReport]])


def render(result: dict[str, object], console: Console) -> None:
    """A line for each run, and how the limits came and went."""
    heard = Table(
        "While damaged",
        name_column("case"),
        *map(number_column, ("useful/s", "in time/s", "utility/s", "alerts in time", "cut off")),
    )
    control = Table(
        "Control",
        name_column("case"),
        *map(number_column, ("peak", "limited", "below", "above again", "limits", "lifted", "moved")),
    )
    for name, reports in _cases(result).items():
        for label, report in reports.items():
            during = report.during
            heard.add(
                f"{name}, {label}",
                f"{during.useful_s:,.0f}",
                f"{during.useful_in_time_s:,.0f}",
                f"{during.utility_s:,.0f}",
                f"{during.classes[PROTECTED].in_time_share:.2%}",
                f"{report.cut_off}",
            )
        report = reports[WITH]
        control.add(
            name,
            f"{report.peak_utilisation:.0%}",
            _seconds(report.limited_after_s),
            _seconds(report.below_after_s),
            _seconds(report.overloaded_again_s),
            f"{report.most_limits}",
            _seconds(report.lifted_after_s),
            f"{len(report.moves)} topics",
        )
    heard.show(console)
    control.show(console)
    for name, reports in _cases(result).items():
        without, controlled = reports[WITHOUT].during, reports[WITH].during
        times = ratio(controlled.useful_s, without.useful_s)
        in_time = ratio(controlled.useful_in_time_s, without.useful_in_time_s)
        console.print(f"{name}: useful messages {_times(times)}, in time {_times(in_time)} with control")


def _times(value: float | None) -> str:
    return "–" if value is None else f"× {value:.2f}"


def _seconds(seconds: float | None) -> str:
    return "never" if seconds is None else f"{seconds:.1f} s"


def missed(result: dict[str, object]) -> list[str]:
    """The bars."""
    lines = []
    for name, reports in _cases(result).items():
        without, report = reports[WITHOUT], reports[WITH]
        if report.below_after_s is None or report.below_after_s > BELOW_BAR_S:
            lines.append(f"{name}: brokers below the threshold after {_seconds(report.below_after_s)}")
        if report.overloaded_again_s > AGAIN_BAR * report.during.seconds:
            lines.append(f"{name}: above the threshold again for {report.overloaded_again_s:.1f} s")
        alerts = report.during.classes[PROTECTED]
        if alerts.in_time < alerts.offered:
            lines.append(f"{name}: {alerts.offered - alerts.in_time} alerts of {alerts.offered} not in time")
        times = ratio(report.during.useful_s, without.during.useful_s)
        if times is not None and times < USEFUL_BARS[name]:
            lines.append(f"{name}: {times:.2f} times as many useful messages as without control")
        if report.lifted_after_s is None or report.lifted_after_s > LIFTED_BAR_S:
            lines.append(f"{name}: limits gone after {_seconds(report.lifted_after_s)}")
        if not report.most_limits:
            lines.append(f"{name}: nobody was limited")
        if name == SOME_ROOM and not report.moves:
            lines.append(f"{name}: balancing moved nothing")
    return lines
