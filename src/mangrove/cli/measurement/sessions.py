"""`mangrove evaluate sessions`: offload sessions of the production brain under faults, in simulation."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Annotated

import typer

from mangrove.cli.measurement.options import SeedOption, SeedsOption, plain
from mangrove.cli.output import JsonOption, print_json, stderr_console, stdout_console
from mangrove.errors import EXIT_NEGATIVE

if TYPE_CHECKING:
    from mangrove.simulation.agents.batch import SessionsTotals


def sessions(
    seeds: SeedsOption = 100,
    seed: SeedOption = 1,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes to spread the schedules over; by default one a core.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Bursts, lost messages, dead clients and dead agents; a seed that breaks a promise is printed."""
    from rich.progress import Progress

    from mangrove.simulation.agents.batch import run_schedules

    workers = workers or os.cpu_count() or 1
    started = time.monotonic()
    with Progress(console=stderr_console(), transient=True) as progress:
        task = progress.add_task("schedules", total=seeds)
        totals = run_schedules(range(seed, seed + seeds), lambda _: progress.advance(task), workers)
    minutes = (time.monotonic() - started) / 60
    if as_json:
        print_json({"experiment": "sessions", "seed": seed, **plain(totals)})
    else:
        _show(totals, seed, minutes)
    if totals.broken:
        raise typer.Exit(EXIT_NEGATIVE)


def _show(totals: SessionsTotals, seed: int, minutes: float) -> None:
    console = stdout_console()
    for result in totals.broken:
        console.print(str(result), markup=False)
    console.print(
        f"{totals.schedules} schedules from seed {seed}: {totals.faults} faults, {totals.deaths} deaths of "
        f"agents, {totals.sessions} sessions, {totals.resumed} of them taken up by a successor;\n"
        f"{totals.moved} clients moved, {totals.between_domains} topics were led to another domain, "
        f"{totals.stale} outdated orders were left alone.\n"
        f"{len(totals.broken)} schedules broke a promise; "
        f"{totals.schedules / minutes:.0f} schedules a minute were played."
    )
