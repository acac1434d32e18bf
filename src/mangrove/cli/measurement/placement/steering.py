"""`mangrove evaluate steering`: new subscribers led to the domains of their publishers (ePEER §6.2.2)."""

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

    from mangrove.evaluation.steering.experiment import SteeringResult

NAMES = {
    "link_msg_s": "over links, msg/s × links",
    "line_msg_s": "over clients' lines, msg/s × links",
    "mean_ms": "way, mean ms",
    "p95_ms": "way, 95 % ms",
    "busiest": "busiest edge",
}


def steering(
    seeds: SeedsOption = 30,
    seed: SeedOption = 1,
    sensitivity_seeds: Annotated[
        int, typer.Option(min=0, help="Runs of each variant; 0 leaves them out.")
    ] = 5,
    figures: FiguresOption = None,
    workers: WorkersOption = None,
    master: MasterOption = None,
    remote: RemoteOption = None,
    results: ResultsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Lead new subscribers to their publishers' domains, or not: the agents' own code in virtual time."""
    from mangrove.evaluation.steering.experiment import (
        BASE,
        VARIANTS,
        steering_trials,
        summarise,
        summarise_variant,
    )
    from mangrove.evaluation.trials.experiment import MAIN

    study = Study(
        steering_trials({MAIN: BASE, **VARIANTS}),
        lambda chosen, found: summarise(chosen, BASE, found),
        summarise_variant,
        _draw,
        _show,
    )
    place = Place(workers, master, remote, results)
    study.run(seed_range(seed, seeds), sensitivity_seeds, place, figures, as_json=as_json)


def _draw(result: SteeringResult, folder: Path) -> None:
    from mangrove.evaluation.drawings.steering import draw_steering

    draw_steering(result, folder)


def _show(result: SteeringResult) -> None:
    from mangrove.cli.tables.table import USEFUL, Table, name_column, number_column

    console = stdout_console()
    table = Table(
        "Subscribers at home, and led to their publishers: mean over seeds [95 % interval]",
        name_column("measure"),
        number_column("at home"),
        number_column("steered"),
        number_column("change"),
        number_column("less in"),
        number_column("p", USEFUL),
    )
    for name, measure in result.measures.items():
        home, steered = measure.home, measure.steered
        table.add(
            NAMES[name],
            f"{home.mean:.4g} [{home.mean_95[0]:.4g} {home.mean_95[1]:.4g}]",
            f"{steered.mean:.4g} [{steered.mean_95[0]:.4g} {steered.mean_95[1]:.4g}]",
            f"{steered.mean / home.mean - 1:+.1%}" if home.mean else "–",
            f"{measure.less.wins} of {len(result.seeds)}",
            f"{measure.less.p:.1e}",
        )
    table.show(console)
    if result.sensitivity:
        console.print()
        _variants(result)
    console.print(
        f"{told(result.seeds)}; {result.setting.domains} domains, {result.setting.topics} topics,"
        f" {result.setting.subscribers} subscribers, of whom {result.moved_mean:.0f} are served elsewhere in"
        f" the mean; nobody was moved more than {result.most_orders} times; {result.recalled} were called"
        f" back. Seconds of overload, summed over edges: {result.overload_s[0]:.1f} at home,"
        f" {result.overload_s[1]:.1f} steered.",
        soft_wrap=False,
    )


def _variants(result: SteeringResult) -> None:
    from mangrove.cli.tables.table import Table, name_column, number_column

    table = Table(
        "One thing changed: change by steering",
        name_column("variant"),
        number_column("over links"),
        number_column("over lines"),
        number_column("mean ms"),
        number_column("busiest edge"),
        number_column("moved"),
        number_column("overload s"),
    )
    for one in result.sensitivity:
        changes = [
            f"{one.steered[each] / one.home[each] - 1:+.1%}" if one.home[each] else "–"
            for each in ("link_msg_s", "line_msg_s", "mean_ms", "busiest")
        ]
        table.add(
            one.name, *changes, f"{one.moved:.0f}", f"{one.overload_s[0]:.0f} → {one.overload_s[1]:.0f}"
        )
    table.show(stdout_console())
