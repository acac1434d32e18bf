"""`mangrove evaluate drd`: delay-requirement-driven offloading against PEER (ePEER §4.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from mangrove.cli.measurement.options import SeedOption, SeedsOption, seed_range, told
from mangrove.cli.measurement.trials.place import (
    MasterOption,
    Place,
    RemoteOption,
    ResultsOption,
    WorkersOption,
)
from mangrove.cli.measurement.trials.study import FiguresOption, Study
from mangrove.cli.output import JsonOption, stdout_console

if TYPE_CHECKING:
    from pathlib import Path

    from mangrove.evaluation.drd.comparison import Pairing
    from mangrove.evaluation.drd.experiment import DrdResult


def drd(
    seeds: SeedsOption = 500,
    seed: SeedOption = 1,
    sensitivity_seeds: Annotated[
        int, typer.Option(min=0, help="Runs of each variant of what is left open; 0 leaves them out.")
    ] = 50,
    figures: FiguresOption = None,
    workers: WorkersOption = None,
    master: MasterOption = None,
    remote: RemoteOption = None,
    results: ResultsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Move load by delay requirement or by load alone: the agents' own code in virtual time (ePEER 4.5)."""
    from mangrove.evaluation.drd.experiment import summarise
    from mangrove.evaluation.drd.runs import Methods, drd_trials
    from mangrove.evaluation.drd.sensitivity import settings, summarise_variant
    from mangrove.evaluation.trials.experiment import MAIN

    given = Methods()
    study = Study(
        drd_trials({MAIN: given, **settings()}),
        lambda chosen, found: summarise(chosen, given.setting, found),
        summarise_variant,
        _draw,
        _show,
    )
    place = Place(workers, master, remote, results)
    study.run(seed_range(seed, seeds), sensitivity_seeds, place, figures, as_json=as_json)


def _draw(result: DrdResult, folder: Path) -> None:
    from mangrove.evaluation.drawings.offloading import draw_offloading

    draw_offloading(result, folder)


def _show(result: DrdResult) -> None:
    console = stdout_console()
    _methods(result)
    console.print()
    _pairs(result)
    if result.sensitivity:
        console.print()
        _sensitivity(result)
    for line in result.differs():
        console.print(f"[yellow]differs from the thesis:[/yellow] {line}")
    drd = result.methods["drd"]
    console.print(
        f"{told(result.seeds)}; delay: sum over moved subscribers of unexpected delay by delay requirement;"
        " all: the whole experiment; after: without the phase in which clients register, as the thesis"
        " compares; in brackets: 95 % interval of the mean (bootstrap). Detection's messages are"
        f" 1/{1 / drd.overhead_capacity:.0f} of the matching capacity, 1/{1 / drd.overhead_exchange:.0f} of"
        " the messages exchanged.",
        soft_wrap=False,
    )


def _methods(result: DrdResult) -> None:
    from mangrove.cli.tables.table import USEFUL, Table, name_column, number_column
    from mangrove.evaluation.drd.experiment import PUBLISHED_DELAY, PUBLISHED_DELAY_AFTER

    table = Table(
        "Relative offloading delay (%) and offloads, mean over experiments",
        name_column("method"),
        number_column("delay, all"),
        number_column("median", USEFUL),
        number_column("printed"),
        number_column("offloads, all"),
        number_column("delay, after"),
        number_column("printed"),
        number_column("offloads, after"),
        number_column("overload s", USEFUL),
    )
    for name, method in result.methods.items():
        table.add(
            name,
            f"{100 * method.delay_mean:.2f} [{100 * method.delay.mean_95[0]:.2f}"
            f" {100 * method.delay.mean_95[1]:.2f}]",
            f"{100 * method.delay.median:.2f}",
            f"{100 * PUBLISHED_DELAY[name]:.4g}" if name in PUBLISHED_DELAY else "–",
            f"{method.offloads_mean:.2f}",
            f"{100 * method.delay_mean_after:.2f}",
            f"{100 * PUBLISHED_DELAY_AFTER[name]:.4g}" if name in PUBLISHED_DELAY_AFTER else "–",
            f"{method.offloads_mean_after:.2f}",
            f"{method.overload_s_mean:.0f}",
        )
    table.show(stdout_console())


def _pairs(result: DrdResult) -> None:
    from mangrove.cli.tables.table import USEFUL, Table, name_column, number_column

    table = Table(
        "Experiments in which the first has less than the second",
        name_column("pair, measure"),
        number_column("wins"),
        number_column("ties"),
        number_column("losses"),
        number_column("p"),
        number_column("effect", USEFUL),
    )

    def row(label: str, found: Pairing) -> None:
        table.add(
            f"  {label}",
            f"{found.wins} ({found.win_share:.1%})",
            str(found.ties),
            str(found.losses),
            f"{found.p:.1e}",
            f"{found.effect:+.2f}",
        )

    for name, pair in result.pairs.items():
        table.section(name)
        row("delay, all", pair.delay)
        row("offloads, all", pair.offloads)
        row("delay, after", pair.delay_after)
        row("offloads, after", pair.offloads_after)
    table.show(stdout_console())


def _sensitivity(result: DrdResult) -> None:
    from mangrove.cli.tables.table import USEFUL, Table, name_column, number_column

    table = Table(
        "One thing changed: delay (%) of the whole experiment, and how often drd has less than peer",
        name_column("variant"),
        number_column("drd"),
        number_column("peer-drd"),
        number_column("peer"),
        number_column("wins delay"),
        number_column("offloads"),
        number_column("delay after"),
        number_column("offloads after", USEFUL),
    )
    for one in result.sensitivity:
        table.add(
            one.name,
            f"{100 * one.delay['drd']:.2f}",
            f"{100 * one.delay['peer-drd']:.1f}",
            f"{100 * one.delay['peer']:.1f}",
            f"{one.delay_wins:.0%}",
            f"{one.offloads_wins:.0%}",
            f"{one.delay_wins_after:.0%}",
            f"{one.offloads_wins_after:.0%}",
        )
    table.show(stdout_console())
