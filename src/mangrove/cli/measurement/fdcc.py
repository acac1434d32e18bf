"""`mangrove evaluate fdcc`: congestion control by usefulness after damage (ePEER §5.3)."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
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
    from mangrove.evaluation.fdcc.experiment import FdccResult

METRICS = {"uo": "output", "ui": "input", "um": "matching"}
PAIRS = {
    "uo": "output, fdcc < uncontrolled",
    "ui": "input, fdcc < uncontrolled",
    "um": "matching, fdcc < uncontrolled",
    "uo_measured": "output measured, the same",
    "qoe": "QoE, undamaged < fdcc",
    "qoe_random": "QoE, random < fdcc",
    "utility_random": "utility, random < fdcc",
    "utility_uncontrolled": "utility, uncontrolled < fdcc",
    "good_in_time": "good in time, random < fdcc",
}


class Damage(StrEnum):
    """What is left of the brokers' bandwidth."""

    PRINTED = "printed"
    HALF = "half"


class SelectionName(StrEnum):
    """How it is chosen who may say how much."""

    GREEDY = "greedy"
    KNAPSACK = "knapsack"


def fdcc(
    seeds: SeedsOption = 500,
    seed: SeedOption = 1,
    selection: Annotated[
        SelectionName, typer.Option(help="How it is chosen who may say how much.")
    ] = SelectionName.GREEDY,
    damage: Annotated[
        Damage, typer.Option(help="What is left of bandwidth: 0.1 to 0.4 (`printed`), or `half`.")
    ] = Damage.PRINTED,
    reduce: Annotated[
        bool,
        typer.Option(
            "--reduce", help="Let the least useful say a little, as files do by default, not only probes."
        ),
    ] = False,
    sensitivity_seeds: Annotated[
        int, typer.Option(min=0, help="Runs of each other reading and input; 0 leaves them out.")
    ] = 8,
    semantic: Annotated[
        Path | None,
        typer.Option(help="Compare keyword with semantic utility instead, by this vectors.npz."),
    ] = None,
    figures: FiguresOption = None,
    workers: WorkersOption = None,
    master: MasterOption = None,
    remote: RemoteOption = None,
    results: ResultsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Who speaks when bandwidth is gone: the agents' own code in virtual time, four arms (ePEER 5.3)."""
    from mangrove.evaluation.fdcc.experiment import summarise
    from mangrove.evaluation.fdcc.runs import fdcc_trials
    from mangrove.evaluation.fdcc.sensitivity import FILE_LADDER, VARIANTS, summarise_variant
    from mangrove.evaluation.fdcc.setting import HALF, Setting
    from mangrove.evaluation.trials.experiment import MAIN

    setting = Setting().limiting(selection=selection.value)
    if reduce:
        setting = setting.limiting(ladder=FILE_LADDER)
    if damage is Damage.HALF:
        setting = setting.drawn(damage=HALF)
    place = Place(workers, master, remote, results)
    if semantic is not None:
        from mangrove.cli.measurement.fdcc_wording import run_wording

        run_wording(setting, semantic, seed_range(seed, seeds), place, as_json=as_json)
        return
    study = Study(
        fdcc_trials({MAIN: setting, **VARIANTS}),
        lambda chosen, found: summarise(chosen, setting, found),
        summarise_variant,
        _draw,
        _show,
    )
    study.run(seed_range(seed, seeds), sensitivity_seeds, place, figures, as_json=as_json)


def _draw(result: FdccResult, folder: Path) -> None:
    from mangrove.evaluation.drawings.congestion import draw_congestion

    draw_congestion(result, folder)


def _show(result: FdccResult) -> None:
    console = stdout_console()
    _arms(result)
    console.print()
    _reduced(result)
    console.print()
    _tests(result)
    if result.sensitivity:
        console.print()
        _sensitivity(result)
    for line in result.differs():
        console.print(f"[yellow]differs from the thesis:[/yellow] {line}")
    control, ratio = result.control, result.utility_ratio
    console.print(
        f"{told(result.seeds)}; QoE {result.qoe_gain:+.1%} from undamaged to fdcc; utility delivered by fdcc:"
        f" {ratio['random'].mean:.2f} times that of random limiting of the same volume,"
        f" {ratio['uncontrolled'].mean:.2f} times that without control. No broker is overloaded"
        f" {control.relief_s:.1f} s after the damage (never in {control.never_relieved} experiments), nobody"
        f" limited {control.clear_s:.1f} s after recovery (never: {control.never_clear});"
        f" {control.limited:.0%} of the publishers are limited, and {control.changes:.2g} limits change"
        " while nothing else does."
        f" Feedback would be {control.feedback_capacity:.2%} of an edge's matching capacity; it takes the"
        " management broker.",
        soft_wrap=False,
    )


def _arms(result: FdccResult) -> None:
    from mangrove.cli.tables.table import USEFUL, Table, name_column, number_column
    from mangrove.evaluation.fdcc.experiment import PUBLISHED_QOE

    table = Table(
        "What subscribers get from the damage to the recovery, mean over experiments",
        name_column("arm"),
        number_column("QoE"),
        number_column("printed"),
        number_column("silent 0"),
        number_column("probes", USEFUL),
        number_column("utility/s"),
        number_column("good in time"),
        number_column("stopped"),
        number_column("unheard"),
        number_column("silence s", USEFUL),
    )
    printed = {"undamaged": f"{PUBLISHED_QOE[0]:.4f}", "fdcc": f"{PUBLISHED_QOE[1]:.4f}"}
    for name, arm in result.arms.items():
        table.add(
            name,
            f"{arm.qoe:.4f}",
            printed.get(name, "–"),
            f"{arm.qoe_zero:.4f}",
            f"{arm.qoe_probes:.4f}",
            f"{arm.utility_s:,.0f}",
            f"{arm.good_in_time:.1%}",
            f"{arm.stopped:.1%}",
            f"{arm.unheard:.1%}",
            f"{result.longest_silence_s[name]:.2f}",
        )
    table.show(stdout_console())


def _reduced(result: FdccResult) -> None:
    from mangrove.cli.tables.table import USEFUL, Table, name_column, number_column

    table = Table(
        "Load, % of what brokers can carry undamaged; and what they are measured to carry",
        name_column("metric"),
        number_column("without"),
        number_column("fdcc"),
        number_column("points"),
        number_column("printed"),
        number_column("relative"),
        number_column("measured"),
        number_column("fdcc"),
        number_column("points", USEFUL),
        number_column("relative", USEFUL),
    )
    without, under = result.arms["uncontrolled"], result.arms["fdcc"]
    for metric, label in METRICS.items():
        found, seen = result.load_reduced[metric], f"{metric}_measured"
        table.add(
            label,
            f"{100 * getattr(without, metric):.1f}",
            f"{100 * getattr(under, metric):.1f}",
            f"{100 * found.points.mean:.1f}",
            f"{100 * found.published:.1f}",
            f"{100 * found.relative:.1f}",
            f"{100 * getattr(without, seen):.1f}",
            f"{100 * getattr(under, seen):.1f}",
            f"{100 * found.measured_points:.1f}",
            f"{100 * found.measured_relative:.1f}",
        )
    table.show(stdout_console())


def _tests(result: FdccResult) -> None:
    from mangrove.cli.tables.table import USEFUL, Table, name_column, number_column

    table = Table(
        "Experiments in which the first has less than the second",
        name_column("measure, pair"),
        number_column("wins"),
        number_column("ties"),
        number_column("losses"),
        number_column("p"),
        number_column("effect", USEFUL),
    )
    for name, found in result.tests.items():
        table.add(
            PAIRS[name],
            f"{found.wins} ({found.win_share:.1%})",
            str(found.ties),
            str(found.losses),
            f"{found.p:.1e}",
            f"{found.effect:+.2f}",
        )
    table.show(stdout_console())


def _sensitivity(result: FdccResult) -> None:
    from mangrove.cli.tables.table import USEFUL, Table, name_column, number_column

    table = Table(
        "Other readings and inputs: QoE, load reduced (points; relative), utility by random's",
        name_column("variant"),
        number_column("QoE"),
        number_column("gain"),
        number_column("out"),
        number_column("in"),
        number_column("mat."),
        number_column("rel."),
        number_column("ratio"),
        number_column("stop"),
        number_column("unheard", USEFUL),
        number_column("good", USEFUL),
    )
    for one in result.sensitivity:
        table.add(
            one.name,
            f"{one.qoe:.3f}",
            f"{100 * one.qoe_gain:+.0f}",
            *(f"{100 * one.reduced[metric]:.1f}" for metric in METRICS),
            f"{100 * one.relative['uo']:.0f}",
            f"{one.utility_ratio:.2f}",
            f"{100 * one.stopped:.0f}",
            f"{100 * one.unheard:.0f}",
            f"{100 * one.good_in_time:.0f}",
        )
    table.show(stdout_console())
