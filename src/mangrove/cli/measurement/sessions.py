"""`mangrove evaluate sessions`: offload sessions of the production brain under faults, in simulation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mangrove.cli.measurement.options import SeedOption, SeedsOption
from mangrove.cli.measurement.schedule_batches import WorkersOption, play_batch
from mangrove.cli.output import JsonOption, stdout_console

if TYPE_CHECKING:
    from mangrove.simulation.agents.batch import SessionsTotals


def sessions(
    seeds: SeedsOption = 100,
    seed: SeedOption = 1,
    workers: WorkersOption = None,
    as_json: JsonOption = False,
) -> None:
    """Bursts, lost messages, dead clients and dead agents; a seed that breaks a promise is printed."""
    from mangrove.simulation.agents.batch import run_schedules

    play_batch("sessions", run_schedules, _show, range(seed, seed + seeds), workers, as_json)


def _show(totals: SessionsTotals, seed: int, minutes: float) -> None:
    console = stdout_console()
    for result in totals.broken:
        console.print(str(result), markup=False)
    console.print(
        f"{totals.schedules} schedules from seed {seed}: {totals.faults} faults, {totals.deaths} deaths of "
        f"agents, {totals.sessions} sessions, {totals.resumed} of them taken up by a successor;\n"
        f"{totals.moved} clients moved, {totals.between_domains} topics were led to another domain, "
        f"{totals.stale} outdated orders were left alone;\n"
        f"{totals.cuts} brokers lost capacity for a while, publishers were limited for {totals.limited} s.\n"
        f"{len(totals.broken)} schedules broke a promise; "
        f"{totals.schedules / minutes:.0f} schedules a minute were played."
    )
