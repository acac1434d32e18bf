"""`mangrove evaluate failover|schedules|false-alarms`: the live protocol in simulation."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mangrove.cli.measurement.options import plain
from mangrove.cli.measurement.schedule_batches import WorkersOption, play_batch
from mangrove.cli.output import JsonOption, print_json, stderr_console, stdout_console
from mangrove.errors import EXIT_NEGATIVE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mangrove.evaluation.failover import FailoverSummary
    from mangrove.evaluation.false_alarms import FalseAlarms
    from mangrove.simulation.schedules.batch import ScheduleTotals

SeedsOption = Annotated[int, typer.Option("--seeds", min=1, help="Number of runs, each with its own seed.")]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="First seed; the others follow it.")]


def failover(
    seeds: SeedsOption = 10,
    seed: SeedOption = 1,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw the result into this PNG file.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Reconvergence and loss after silent failures, against an OSPF-like protocol, in simulation."""
    from rich.progress import Progress

    from mangrove.evaluation.failover import run_failover

    with Progress(console=stderr_console(), transient=True) as progress:
        task = progress.add_task("cases", total=None)
        summaries = run_failover(
            range(seed, seed + seeds),
            on_case=lambda done, of: progress.update(task, completed=done, total=of),
        )
    if plot is not None:
        from mangrove.evaluation.drawings.figures import draw_failover

        draw_failover(summaries, plot)
    missed = [line for summary in summaries for line in summary.missed()]
    if as_json:
        print_json({"experiment": "failover", "summaries": _plain(summaries), "missed": missed})
    else:
        _show_failover(summaries)
    for line in missed:
        stderr_console().print(f"[red]missed:[/red] {line}")
    if missed:
        raise typer.Exit(EXIT_NEGATIVE)


def schedules(
    seeds: SeedsOption = 100,
    seed: SeedOption = 1,
    workers: WorkersOption = None,
    lying: Annotated[
        bool, typer.Option("--lying", help="Gateways have keys, and one of them lies to its neighbours.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Random failure schedules on the production engines; a seed that breaks a promise is printed."""
    from mangrove.simulation.schedules.batch import run_schedules

    run = partial(run_schedules, lying=lying)
    play_batch("schedules", run, _show_schedules, range(seed, seed + seeds), workers, as_json)


def false_alarms(
    seeds: SeedsOption = 5,
    seed: SeedOption = 1,
    hours: Annotated[float, typer.Option(min=0.01, help="Virtual hours of each seed.")] = 1.0,
    as_json: JsonOption = False,
) -> None:
    """How often a link that is only slow is taken for dead, and how fast a dead one is found."""
    from mangrove.evaluation.false_alarms import run_false_alarms

    rows = run_false_alarms(range(seed, seed + seeds), hours)
    if as_json:
        print_json({"experiment": "false alarms", "rows": _plain(rows)})
    else:
        _show_false_alarms(rows)


def _plain(values: Sequence[object]) -> list[object]:
    return [plain(value) for value in values]


def _show_failover(summaries: Sequence[FailoverSummary]) -> None:
    from mangrove.cli.tables.table import Table, name_column, number_column
    from mangrove.evaluation.failover import INTERVAL_S, LABELS, SCHEMES

    console = stdout_console()
    for summary in summaries:
        table = Table(
            f"One {summary.failure} fails silently: {summary.nodes} sites, {summary.links} links",
            name_column("protocol"),
            *map(number_column, ("delivers again, ms", "worst, ms", "all agree, ms", "messages lost")),
        )
        for scheme in SCHEMES:
            table.add(
                LABELS[scheme],
                summary.reconverged_ms[scheme].rounded(0),
                f"{summary.worst_reconverged_ms[scheme]:.0f}",
                summary.agreed_ms[scheme].rounded(0),
                summary.lost[scheme].rounded(1),
            )
        table.show(console)
    seeds = summaries[0].seeds
    console.print(
        f"seeds {seeds[0]} to {seeds[-1]}; lost of each stream of {1 / INTERVAL_S:g} messages a second; "
        "± is the 95 % interval of the mean"
    )


def _show_schedules(totals: ScheduleTotals, seed: int, minutes: float) -> None:
    console = stdout_console()
    for result in totals.broken:
        console.print(str(result), markup=False)
    console.print(
        f"{totals.schedules} schedules from seed {seed}: {totals.faults} faults in {totals.virtual_s:.0f} s "
        f"of virtual time, {totals.sent} deliveries due, {totals.promised} of them promised in spite of the "
        f"fault.\n{len(totals.broken)} schedules broke a promise; {totals.lost} deliveries were lost.\n"
        f"{totals.schedules / minutes:.0f} schedules a minute were played."
    )


def _show_false_alarms(rows: Sequence[FalseAlarms]) -> None:
    from mangrove.cli.tables.table import Table, name_column, number_column

    table = Table(
        "Heartbeats every 50 ms over a link that never fails",
        name_column("jitter"),
        *map(number_column, ("false alarms an hour", "with a fixed 125 ms", "detection, ms", "not used, %")),
    )
    for row in rows:
        table.add(
            row.jitter,
            row.per_hour.rounded(1),
            row.fixed_per_hour.rounded(0),
            row.detection_ms.rounded(0),
            f"{100 * row.unusable_share.mean:.2f}",
        )
    console = stdout_console()
    table.show(console)
    seeds = rows[0].seeds
    console.print(
        f"seeds {seeds[0]} to {seeds[-1]}, {rows[0].hours:g} h of virtual time each; "
        "± is the 95 % interval of the mean"
    )
