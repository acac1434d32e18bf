"""A plan from recorded load, put in force: the risk of overload, predicted and measured, before and after.

A head with three edges; topics of three groups surge together, and each edge has the whole of one group. The
load is recorded, profiled by Spark, allocated anew (`plan allocate`) and the plan put in force (`plan apply`)
while the same load goes on. An edge is overloaded in a second in which more came in than its configured
capacity; the recorder's seconds are counted, as the brokers themselves counted. The ratio is the share of
overloaded seconds after over that before, beside the one that the plan promised.
"""

from __future__ import annotations

import asyncio
import math
import tempfile
from pathlib import Path

import msgspec
from rich.console import Console

from mangrove.cli.output import stderr_console
from mangrove.cli.running import run_async
from mangrove.cli.tables.table import Table, name_column, number_column
from mangrove.testbed.plans.scenario import EdgeFigures, LoopReport, PlanLoop

SECONDS, QUICK_SECONDS = 120.0, 40.0
ERRORS = 3.0
"""Standard errors by which a measured share may differ from the predicted one, besides `SLACK`."""
SLACK = 0.05
"""A normal distribution of rates, and a covariance of few seconds, are approximations."""


def run(seed: int, quick: bool) -> dict[str, object]:
    """The loop, once."""
    with tempfile.TemporaryDirectory(prefix="mangrove-bench-") as directory:
        loop = PlanLoop(
            Path(directory),
            seed=seed,
            seconds=QUICK_SECONDS if quick else SECONDS,
            progress=lambda text: stderr_console().print(text),
        )
        report = run_async(loop.run(), asyncio.new_event_loop)
    return {
        "report": msgspec.to_builtins(report),
        "predicted_ratio": _ratio(report, "predicted"),
        "measured_ratio": _ratio(report, "measured"),
    }


def _report(result: dict[str, object]) -> LoopReport:
    return msgspec.convert(result["report"], LoopReport)


def _mean(edges: tuple[EdgeFigures, ...], name: str) -> float:
    shares: list[float] = [getattr(each, name) for each in edges]
    return sum(shares) / len(shares)


def _ratio(report: LoopReport, name: str) -> float | None:
    before = _mean(report.before, name)
    return _mean(report.after, name) / before if before else None


def render(result: dict[str, object], console: Console) -> None:
    """A line for each edge and phase."""
    report = _report(result)
    table = Table(
        f"Seconds beyond {report.capacity_msg_s:g} messages/s",
        name_column("edge"),
        name_column("plan"),
        *map(number_column, ("msg/s", "deviation", "predicted", "measured", "seconds")),
    )
    for phase, edges in (("before", report.before), ("after", report.after)):
        for each in edges:
            table.add(
                each.broker,
                phase,
                f"{each.mean_msg_s:.1f}",
                f"{each.deviation_msg_s:.1f}",
                f"{each.predicted:.3f}",
                f"{each.measured:.3f}",
                str(each.seconds),
            )
    table.show(console)
    predicted, measured = _ratio(report, "predicted"), _ratio(report, "measured")
    console.print(f"after / before: predicted {_number(predicted)}, measured {_number(measured)}")
    account = report.account
    console.print(
        f"{report.moved_topics} topics moved in {report.apply_s:.1f} s; {account.published:,} messages: "
        f"{account.lost} lost, {account.duplicated} twice, {account.reordered} out of order"
    )


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def missed(result: dict[str, object]) -> list[str]:
    """Nothing is lost, overload is rarer, and as rare as was promised."""
    report = _report(result)
    lines = []
    if not report.account.exact:
        figures = report.account
        lines.append(f"{figures.lost} lost, {figures.duplicated} twice, {figures.reordered} out of order")
    before, after = _mean(report.before, "measured"), _mean(report.after, "measured")
    if after >= before:
        lines.append(f"overloaded {after:.1%} of the time after, {before:.1%} before")
    for phase, edges in (("before", report.before), ("after", report.after)):
        predicted, measured = _mean(edges, "predicted"), _mean(edges, "measured")
        seconds = sum(each.seconds for each in edges)
        allowed = SLACK + ERRORS * math.sqrt(max(predicted, 1 / seconds) / seconds)
        if abs(measured - predicted) > allowed:
            lines.append(f"{phase}: {measured:.1%} measured, {predicted:.1%} predicted")
    return lines
