"""`mangrove demo harmony`: the scenario of the Harmony paper with real brokers."""

from __future__ import annotations

import asyncio
import gc
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from mangrove.cli.output import stderr_console, stdout_console
from mangrove.errors import MangroveError

if TYPE_CHECKING:
    from mangrove.testbed.harmony import Phase
    from mangrove.testbed.traffic import StreamReport

FILE = "harmony.yaml"
LONGEST_GAP_MS = 1000.0
NOTABLE_S = 0.5


async def run(seconds: float, seed: int, directory: Path) -> tuple[list[Phase], list[StreamReport]]:
    """Start the federation, drive the scenario, and account for every message."""
    from mangrove.agent.inspection import wait_for_interest
    from mangrove.config import parse_federation
    from mangrove.testbed.harmony import STREAMS, HarmonyScenario
    from mangrove.testbed.local_federation import LocalFederation
    from mangrove.testbed.traffic import Traffic

    console = stderr_console()
    text = (resources.files("mangrove.testbed") / FILE).read_text()
    federation = parse_federation(text, FILE).require()
    console.print(
        f"[bold]harmony[/bold]: five sites; Seattle publishes two topics over two paths each (seed {seed})"
    )
    launched = LocalFederation(federation, directory, ephemeral=True, secured=True, seed=seed)
    async with launched:
        traffic = Traffic(STREAMS, directory)
        try:
            await traffic.open()
            if not await wait_for_interest(launched.runtime(), traffic.wanted(), timeout_s=30.0):
                raise MangroveError("the gateways did not find together in time")
            scenario = HarmonyScenario(launched, traffic)
            if not await scenario.routes_established():
                raise MangroveError("the routes were not established in time")
            # What is there by now stays: looked through in the midst of the traffic, it would be in its way.
            gc.collect()
            gc.freeze()
            publishing = asyncio.create_task(traffic.run(10 * seconds + 120))
            try:
                phases = await scenario.run(seconds, console.print)
            finally:
                publishing.cancel()
                await asyncio.gather(publishing, return_exceptions=True)
            await traffic.settle()
        finally:
            gc.unfreeze()
            await traffic.close()
    if traffic.held_up_s > NOTABLE_S:
        console.print(f"the measuring process was itself held up for {traffic.held_up_s:.1f} s in all")
    return phases, [account.report() for account in traffic.accounts]


def render(phases: list[Phase], reports: list[StreamReport]) -> None:
    """A table of phases, and the account of all messages."""
    from mangrove.cli.tables.table import Table, details_column, name_column, number_column

    table = Table(
        "What happened",
        name_column("phase, topic"),
        number_column("in time"),
        number_column("longest gap"),
        details_column("paths"),
    )
    for phase in phases:
        mark, style = ("✓", "green") if phase.held else ("✗", "red")
        table.section(f"{mark} {phase.name}: {phase.expectation}", style)
        for topic in phase.topics:
            share = topic.in_time / topic.delivered if topic.delivered else 0.0
            table.add(
                f"  {topic.topic}",
                f"{share:.1%}",
                f"{topic.longest_gap_ms:.0f} ms",
                "; ".join(" → ".join(path) for path in topic.routes),
            )
    console = stdout_console()
    table.show(console)
    for report in reports:
        console.print(
            f"{report.topic}: {report.sent:,} sent, {report.delivered:,} delivered, {report.lost:,} lost, "
            f"{report.duplicated:,} duplicated"
        )


def failures(phases: list[Phase], reports: list[StreamReport]) -> list[str]:
    """What did not go as it should."""
    problems = [f"{phase.name}: not so: {phase.expectation}" for phase in phases if not phase.held]
    problems += [
        f"{phase.name}: nothing arrived on {topic.topic} for {topic.longest_gap_ms:.0f} ms"
        for phase in phases
        for topic in phase.topics
        if topic.longest_gap_ms > LONGEST_GAP_MS
    ]
    problems += [f"{report.topic}: {report.lost} lost" for report in reports if report.lost]
    problems += [f"{report.topic}: {report.duplicated} duplicated" for report in reports if report.duplicated]
    return problems
