"""`mangrove evaluate drd`: delay-requirement-driven offloading against PEER (ePEER §4.5)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mangrove.cli.measurement.options import SeedOption, SeedsOption, plain, report, seed_range, told
from mangrove.cli.output import JsonOption, stderr_console, stdout_console

if TYPE_CHECKING:
    from mangrove.evaluation.drd.comparison import Pairing
    from mangrove.evaluation.drd.experiment import DrdResult


def drd(
    seeds: SeedsOption = 500,
    seed: SeedOption = 1,
    sensitivity_seeds: Annotated[
        int, typer.Option(min=0, help="Runs of each variant of what is left open; 0 leaves them out.")
    ] = 50,
    figures: Annotated[
        Path | None, typer.Option("--figures", help="Draw figures into this folder, as PNG files.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes to spread the runs over; by default one a core.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Move load by delay requirement or by load alone: the agents' own code in virtual time (ePEER 4.5)."""
    from dataclasses import replace

    from rich.progress import Progress

    from mangrove.evaluation.drd.experiment import run_drd
    from mangrove.evaluation.drd.sensitivity import VARIANTS, run_sensitivity

    chosen = seed_range(seed, seeds)
    varied = chosen[:sensitivity_seeds]
    workers = workers or os.cpu_count() or 1
    with Progress(console=stderr_console(), transient=True) as progress:
        task = progress.add_task("experiments", total=seeds + len(VARIANTS) * len(varied))
        result = run_drd(chosen, workers=workers, on_seed=lambda: progress.advance(task))
        if varied:
            found = run_sensitivity(varied, workers=workers, on_seed=lambda: progress.advance(task))
            result = replace(result, sensitivity=found)
    if figures is not None:
        from mangrove.evaluation.drawings.offloading import draw_offloading

        draw_offloading(result, figures)
    document = plain(result) | {"differs": result.differs()}
    del document["experiments"]
    report("drd", document, result.missed(), lambda: _show(result), as_json=as_json)


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
