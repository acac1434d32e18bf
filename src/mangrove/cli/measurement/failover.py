"""`mangrove evaluate failover|schedules|false-alarms`: the live protocol in simulation."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from mangrove.cli.measurement.options import (
    PlotOption,
    SeedOption,
    SeedsOption,
    plain,
    report,
    seed_range,
)
from mangrove.cli.measurement.schedules.batches import play_batch
from mangrove.cli.measurement.trials.place import (
    MasterOption,
    Place,
    RemoteOption,
    ResultsOption,
    WorkersOption,
)
from mangrove.cli.output import JsonOption, print_json, stdout_console
from mangrove.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mangrove.evaluation.failover import FailoverSummary
    from mangrove.evaluation.false_alarms import FalseAlarms
    from mangrove.simulation.schedules.batch import ScheduleTotals


def failover(
    seeds: SeedsOption = 10,
    seed: SeedOption = 1,
    plot: PlotOption = None,
    workers: WorkersOption = None,
    master: MasterOption = None,
    remote: RemoteOption = None,
    results: ResultsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Reconvergence and loss after silent failures, against an OSPF-like protocol, in simulation."""
    from mangrove.evaluation.failover import failover_trials, summarise

    trials = failover_trials()
    place = Place(workers, master, remote, results)
    found = place.collect(trials, trials.tasks(seed_range(seed, seeds)))
    summaries = summarise(trials, found)
    if plot is not None:
        from mangrove.evaluation.drawings.figures import draw_failover

        draw_failover(summaries, plot)
    missed = [line for summary in summaries for line in summary.missed()]
    document: dict[str, object] = {"summaries": _plain(summaries)}
    show = partial(_show_failover, summaries)
    report("failover", document, missed, show, as_json=as_json, failed=found.failed)


def schedules(
    seeds: SeedsOption = 100,
    seed: SeedOption = 1,
    workers: WorkersOption = None,
    master: MasterOption = None,
    remote: RemoteOption = None,
    results: ResultsOption = None,
    lying: Annotated[
        bool, typer.Option("--lying", help="Gateways have keys, and one of them lies to its neighbours.")
    ] = False,
    changing: Annotated[
        bool, typer.Option("--changing", help="Contracts change meanwhile, at random times and places.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Random failure schedules on the production engines; a seed that breaks a promise is printed."""
    from mangrove.evaluation.trials.schedules import schedules_trials
    from mangrove.simulation.schedules.batch import ScheduleTotals

    if lying and changing:
        raise InputError("one of --lying and --changing, not both")
    trials = schedules_trials(lying=lying, changing=changing)
    place = Place(workers, master, remote, results)
    chosen = seed_range(seed, seeds)
    play_batch(trials, ScheduleTotals(), _show_schedules, chosen, place, as_json=as_json)


def false_alarms(
    seeds: SeedsOption = 5,
    seed: SeedOption = 1,
    hours: Annotated[float, typer.Option(min=0.01, help="Virtual hours of each seed.")] = 1.0,
    as_json: JsonOption = False,
) -> None:
    """How often a link that is only slow is taken for dead, and how fast a dead one is found."""
    from mangrove.evaluation.false_alarms import run_false_alarms

    rows = run_false_alarms(seed_range(seed, seeds), hours)
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
