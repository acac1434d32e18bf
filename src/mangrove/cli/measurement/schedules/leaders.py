"""`mangrove evaluate leaders`: several agents of one domain under faults, in simulation."""

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
    from mangrove.simulation.agents.several.batch import SeveralTotals


def leaders(
    seeds: SeedsOption = 100,
    seed: SeedOption = 1,
    workers: WorkersOption = None,
    master: MasterOption = None,
    remote: RemoteOption = None,
    results: ResultsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Crashes, stalls, partitions and lost messages; a seed that breaks a promise is printed."""
    from mangrove.evaluation.trials.schedules import leaders_trials
    from mangrove.simulation.agents.several.batch import SeveralTotals

    place = Place(workers, master, remote, results)
    play_batch(leaders_trials(), SeveralTotals(), _show, seed_range(seed, seeds), place, as_json=as_json)


def _show(totals: SeveralTotals, seed: int, minutes: float) -> None:
    console = stdout_console()
    for result in totals.broken:
        console.print(str(result), markup=False)
    console.print(
        f"{totals.schedules} schedules from seed {seed}: {totals.agents} agents, {totals.faults} faults;\n"
        f"the lead was taken {totals.terms} times, {totals.handed_over} times by a hand-over; leaders acted "
        f"{totals.actions} times,\nand {totals.refused_writes} late writes of deposed ones were refused;\n"
        f"{totals.policies} policies came in force, {totals.completed} completed by a successor, "
        f"{totals.discarded} were discarded;\n{totals.brokers_failed} brokers were found dead.\n"
        f"{len(totals.broken)} schedules broke a promise; "
        f"{totals.schedules / minutes:.0f} schedules a minute were played."
    )
