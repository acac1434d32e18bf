"""`mangrove evaluate budgets`: in which order should queues serve what has a deadline?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mangrove.cli.measurement.failover import SeedOption, SeedsOption
from mangrove.cli.output import JsonOption, print_json, stderr_console, stdout_console

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mangrove.evaluation.budgets import BudgetsSummary


def budgets(seeds: SeedsOption = 10, seed: SeedOption = 1, as_json: JsonOption = False) -> None:
    """Latency budgets for each hop against total laxity and FIFO, in simulation (Harmony, section 3.3)."""
    import msgspec
    from rich.progress import Progress

    from mangrove.evaluation.budgets import run_budgets

    with Progress(console=stderr_console(), transient=True) as progress:
        task = progress.add_task("runs", total=None)
        summaries = run_budgets(
            range(seed, seed + seeds),
            on_run=lambda done, of: progress.update(task, completed=done, total=of),
        )
    if as_json:
        print_json({"experiment": "budgets", "summaries": msgspec.to_builtins(summaries, str_keys=True)})
    else:
        _show(summaries)


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
