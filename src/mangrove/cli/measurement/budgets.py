"""`mangrove evaluate budgets`: in which order should queues serve what has a deadline?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mangrove.cli.measurement.options import SeedOption, SeedsOption, report, seed_range
from mangrove.cli.measurement.trials.place import (
    MasterOption,
    Place,
    RemoteOption,
    ResultsOption,
    WorkersOption,
)
from mangrove.cli.output import JsonOption, stdout_console

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mangrove.evaluation.budgets import BudgetsSummary


def budgets(
    seeds: SeedsOption = 10,
    seed: SeedOption = 1,
    workers: WorkersOption = None,
    master: MasterOption = None,
    remote: RemoteOption = None,
    results: ResultsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Latency budgets for each hop against total laxity and FIFO, in simulation (Harmony, section 3.3)."""
    import msgspec

    from mangrove.evaluation.budgets import budgets_trials, summarise

    trials = budgets_trials()
    place = Place(workers, master, remote, results)
    found = place.collect(trials, trials.tasks(seed_range(seed, seeds)))
    summaries = summarise(found)
    document = {"summaries": msgspec.to_builtins(summaries, str_keys=True)}
    report("budgets", document, [], lambda: _show(summaries), as_json=as_json, failed=found.failed)


def _show(summaries: Sequence[BudgetsSummary]) -> None:
    from mangrove.cli.tables.table import Table, name_column, number_column
    from mangrove.evaluation.budgets import KINDS, LABELS, ORDERS

    console = stdout_console()
    table = Table(
        "Messages in time, %, by the hop that is overloaded",
        name_column("hop, order"),
        number_column("all"),
        *map(number_column, KINDS),
    )
    for summary in summaries:
        table.section(summary.place)
        for order in ORDERS:
            shares = summary.in_time[order.value]
            whole = summary.overall[order.value]
            spread = "" if whole.half_width is None else f"±{100 * whole.half_width:.1f}"
            table.add(
                f"  {LABELS[order]}",
                f"{100 * whole.mean:.1f}{spread}",
                *(f"{100 * shares[kind].mean:.1f}" for kind in KINDS),
            )
    table.show(console)
    seeds = summaries[0].seeds
    console.print(
        f"seeds {seeds[0]} to {seeds[-1]}; far: over four hops, near: over one; "
        "± is the 95 % interval of the mean"
    )
