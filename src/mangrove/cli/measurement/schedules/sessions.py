"""`mangrove evaluate sessions`: offload sessions of the production brain under faults, in simulation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mangrove.cli.measurement.options import SeedOption, SeedsOption, seed_range
from mangrove.cli.measurement.schedules.batches import play_batch
from mangrove.cli.measurement.trials.place import (
    MasterOption,
    Place,
    RemoteOption,
    ResultsOption,
    WorkersOption,
)
from mangrove.cli.output import JsonOption, stdout_console

if TYPE_CHECKING:
    from mangrove.simulation.agents.batch import SessionsTotals


def sessions(
    seeds: SeedsOption = 100,
    seed: SeedOption = 1,
    workers: WorkersOption = None,
    master: MasterOption = None,
    remote: RemoteOption = None,
    results: ResultsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Bursts, lost messages, dead clients and dead agents; a seed that breaks a promise is printed."""
    from mangrove.evaluation.trials.schedules import sessions_trials
    from mangrove.simulation.agents.batch import SessionsTotals

    place = Place(workers, master, remote, results)
    play_batch(sessions_trials(), SessionsTotals(), _show, seed_range(seed, seeds), place, as_json=as_json)


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
