"""`mangrove evaluate resilience`: a year of failures, promised and measured availability."""

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
from mangrove.cli.measurement.trials.place import (
    MasterOption,
    Place,
    RemoteOption,
    ResultsOption,
    WorkersOption,
)
from mangrove.cli.output import JsonOption, stdout_console

if TYPE_CHECKING:
    from mangrove.evaluation.resilience.year import YearSummary


def resilience(
    seeds: SeedsOption = 5,
    seed: SeedOption = 1,
    days: Annotated[float, typer.Option(min=1, help="Simulated days of each seed.")] = 365,
    plot: PlotOption = None,
    workers: WorkersOption = None,
    master: MasterOption = None,
    remote: RemoteOption = None,
    results: ResultsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let links and sites fail by their probabilities for a year: what was promised, and what was given."""
    from mangrove.evaluation.resilience.year import YearSetting, summarise, year_trials

    setting = YearSetting(days * 86400)
    trials = year_trials(setting)
    played = Place(workers, master, remote, results).collect(trials, trials.tasks(seed_range(seed, seeds)))
    found = summarise(setting, played)
    if plot is not None:
        from mangrove.evaluation.drawings.figures import draw_year

        draw_year(found, plot)
    show = partial(_show, found)
    report("resilience", plain(found), found.missed(), show, as_json=as_json, failed=played.failed)


def _show(found: YearSummary) -> None:
    from mangrove.cli.tables.table import USEFUL, Table, name_column, number_column
    from mangrove.evaluation.resilience.year import LABELS

    table = Table(
        "Share of time in which messages arrive, both ends being up",
        name_column("scheme"),
        number_column("paths"),
        number_column("promised"),
        number_column("predicted"),
        number_column("set never repaired"),
        number_column("live"),
        number_column("worst", USEFUL),
        number_column("down, min a year", USEFUL),
        number_column("new routes a year", USEFUL),
    )
    for scheme in found.schemes:
        table.add(
            LABELS[scheme.scheme],
            f"{scheme.paths:.1f}",
            "–" if scheme.promised is None else f"{scheme.promised:g}",
            f"{scheme.predicted:.6f}",
            scheme.fixed.rounded(6),
            scheme.live.rounded(7),
            f"{scheme.worst:.7f}",
            f"{scheme.down_minutes_a_year:.2f}",
            f"{scheme.changes_a_year:.0f}",
        )
    console = stdout_console()
    table.show(console)
    left_out = sum(scheme.unpromised for scheme in found.schemes)
    console.print(
        f"{found.sites} sites, {found.links} links, {found.failures_a_year:.0f} failures a year; "
        f"{found.days:g} days of each of the seeds {found.seeds[0]} to {found.seeds[-1]}; "
        f"{left_out} contracts that the network cannot promise are left out; "
        "± is the 95 % interval of the mean"
    )
