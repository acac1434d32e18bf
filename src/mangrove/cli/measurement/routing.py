"""`mangrove evaluate gap|tables`: the experiments on separated paths and on pre-calculated tables."""

from __future__ import annotations

from contextlib import nullcontext
from enum import StrEnum
from functools import partial
from pathlib import Path
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
from mangrove.cli.output import JsonOption, stderr_console, stdout_console

if TYPE_CHECKING:
    from mangrove.evaluation.separation.gap import GapSetup, GapSummary
    from mangrove.evaluation.tables import TablesResult
    from mangrove.routing.network.graph import Graph


class ModelName(StrEnum):
    """Generators of the underlay."""

    WAXMAN = "waxman"
    BARABASI_ALBERT = "barabasi-albert"


def gap(
    seeds: SeedsOption = 10,
    seed: SeedOption = 1,
    topology: Annotated[
        str | None,
        typer.Option(
            help="Run on FILE.json, FILE.brite or topohub:GROUP/NAME instead of a synthetic topology."
        ),
    ] = None,
    model: Annotated[ModelName, typer.Option(help="Generator of the underlay.")] = ModelName.WAXMAN,
    nodes: Annotated[int, typer.Option(help="Nodes of the underlay.")] = 1000,
    m: Annotated[int, typer.Option("--m", help="Links of each new node of the underlay.")] = 8,
    pairs: Annotated[int, typer.Option(help="Pairs of overlay nodes.")] = 200,
    regions: Annotated[int, typer.Option(help="Failure regions for each radius.")] = 100,
    separation: Annotated[
        float | None,
        typer.Option(help="Separation asked for. [default: 2000, or a fifth of a backbone's width]"),
    ] = None,
    max_stretch: Annotated[
        float | None,
        typer.Option(
            help="Longest alternative, as a multiple of the primary; 0 for no limit. [default: 2.5]"
        ),
    ] = None,
    flat: Annotated[bool, typer.Option("--flat", help="Penalty not scaled by distance.")] = False,
    log: Annotated[
        Path | None,
        typer.Option("--log", help="Write a line for each pair into this file, .csv or .jsonl."),
    ] = None,
    plot: PlotOption = None,
    workers: WorkersOption = None,
    master: MasterOption = None,
    remote: RemoteOption = None,
    results: ResultsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Repeat the thesis's experiment: failures of separated paths against the k shortest, by radius."""
    from dataclasses import replace

    from mangrove.evaluation.separation.gap import (
        GapCase,
        GapSetup,
        Model,
        backbone_setup,
        gap_trials,
        summarise,
    )
    from mangrove.evaluation.separation.pair_log import pair_log
    from mangrove.evaluation.trials.experiment import MAIN

    graph: Graph | None = None
    if topology is None:
        setup = GapSetup(Model(model.value), nodes, m, pairs=pairs, regions=regions)
        if separation is not None:
            setup = replace(setup, separation=separation)
    else:
        graph = _placed(topology)
        setup = backbone_setup(graph, pairs, regions, separation)
    if max_stretch is not None:
        setup = replace(setup, max_stretch=max_stretch or None)
    setup = replace(setup, scaled=not flat)
    case = GapCase(setup, graph, with_pairs=log is not None)
    trials, place = gap_trials(case), Place(workers, master, remote, results)
    with pair_log(log) if log is not None else nullcontext() as lines:
        found = place.collect(trials, trials.tasks(seed_range(seed, seeds)))
        for pair in (pair for trial in found.of(MAIN) for pair in trial.pairs):
            if lines is not None:
                lines.write(pair)
    if lines is not None:
        stderr_console().print(f"{lines.lines} pairs in {log}", soft_wrap=True)
    summary = summarise(setup, [trial.run for trial in found.of(MAIN)], graph, topology or "")
    if plot is not None:
        from mangrove.evaluation.drawings.figures import draw_gap

        draw_gap(summary, plot)
    document, missed, show = _gap_document(summary), summary.missed(), partial(_show_gap, summary)
    report("gap", document, missed, show, as_json=as_json, failed=found.failed)


def tables(
    seeds: SeedsOption = 10,
    seed: SeedOption = 1,
    nodes: Annotated[int, typer.Option(help="Nodes of each network.")] = 32,
    links: Annotated[int, typer.Option(help="Links of each network.")] = 64,
    plot: PlotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare path lengths after single failures: pre-calculated tables, recomputed paths, routing layers."""
    from rich.progress import Progress

    from mangrove.evaluation.tables import run_tables

    with Progress(console=stderr_console(), transient=True) as progress:
        task = progress.add_task("networks", total=None)
        result = run_tables(
            nodes,
            links,
            seed_range(seed, seeds),
            lambda done, of: progress.update(task, completed=done, total=of),
        )
    if plot is not None:
        from mangrove.evaluation.drawings.figures import draw_tables

        draw_tables(result, plot)
    report("tables", plain(result), result.missed(), lambda: _show_tables(result), as_json=as_json)


def _placed(topology: str) -> Graph:
    from mangrove.cli.routing.topology_file import load_topology
    from mangrove.routing.paths.planner import require_places

    graph = load_topology(topology)
    require_places(graph)
    return graph


def _gap_document(summary: GapSummary) -> dict[str, object]:
    from mangrove.evaluation.separation.gap import PUBLISHED_IMPROVEMENT

    document = plain(summary)
    if summary.setup.published_setting:
        document["published_improvement"] = PUBLISHED_IMPROVEMENT
    return document


def _show_gap(summary: GapSummary) -> None:
    from mangrove.cli.tables.table import Styled, Table, name_column, number_column
    from mangrove.evaluation.separation.gap import METHODS, PUBLISHED_FAILURES, PUBLISHED_IMPROVEMENT

    setup, console = summary.setup, stdout_console()
    known = setup.published_setting
    table = Table(
        "Failures avoided, as a share of those with the primary path alone",
        number_column(f"radius {summary.unit}".rstrip()),
        number_column("primary fails"),
        *(number_column(method.replace("_", " ")) for method in METHODS),
    )
    for position, radius in enumerate(setup.radii):
        table.add(
            f"{radius:g}",
            summary.failures["primary"][position].rounded(0),
            *(str(summary.improvement[method][position]) for method in METHODS),
        )
        if known:
            published = (f"{PUBLISHED_IMPROVEMENT[method][position]:.3f}" for method in METHODS)
            table.add(
                "published",
                *(Styled(text, "dim") for text in (str(PUBLISHED_FAILURES[position]), *published)),
            )
    table.show(console)
    paths = Table(
        "The alternatives",
        name_column("method"),
        number_column("proximity (share of near nodes)"),
        number_column("the same, common ends left out"),
        number_column("stretch"),
    )
    for method in METHODS:
        paths.add(
            method.replace("_", " "),
            str(summary.near_share[method]),
            str(summary.inner_near_share[method]),
            str(summary.stretch[method]),
        )
    paths.show(console)
    console.print(_conditions(setup, summary))


def _conditions(setup: GapSetup, summary: GapSummary) -> str:
    limit = "no limit on delay"
    if setup.max_stretch is not None:
        limit = f"delay at most {setup.max_stretch:g} × the primary's"
    separation = f"{setup.separation:g} {summary.unit}".rstrip()
    return (
        f"{summary.topology}; {setup.pairs} pairs, {setup.regions} regions a radius; "
        f"separation {separation}, {limit}; "
        f"seeds {summary.seeds[0]} to {summary.seeds[-1]}; ± is the 95 % interval of the mean"
    )


def _show_tables(result: TablesResult) -> None:
    from mangrove.cli.tables.table import USEFUL, Table, name_column, number_column
    from mangrove.evaluation.tables import SCHEMES

    console = stdout_console()
    labels = {"pcrt": "PCRT tables", "recomputed": "recomputed", "layers": "layers"}
    for summary in result.summaries:
        table = Table(
            f"Every single {summary.failure} failing",
            name_column("scheme"),
            number_column("hops, all pairs", USEFUL),
            number_column("hops, pairs hit"),
            number_column("stretch, pairs hit"),
            number_column("worst"),
            number_column("no path"),
        )
        for scheme in SCHEMES:
            table.add(
                labels[scheme],
                str(summary.mean_hops[scheme]),
                str(summary.mean_hops_hit[scheme]),
                str(summary.stretch[scheme]),
                f"{summary.worst_stretch[scheme]:.2f}",
                str(summary.undelivered[scheme]),
            )
        table.show(console)
    console.print(
        f"{result.nodes} nodes and {result.links} links, seeds {result.seeds[0]} to {result.seeds[-1]}; "
        f"{result.layers.mean:.1f} routing layers on average; ± is the 95 % interval of the mean"
    )
