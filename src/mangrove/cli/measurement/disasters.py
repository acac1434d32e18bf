"""`mangrove evaluate backbones|disasters`: separated paths on the real backbones whose places are known."""

from __future__ import annotations

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
    told,
)
from mangrove.cli.output import JsonOption, print_json, stderr_console, stdout_console
from mangrove.errors import InputError

if TYPE_CHECKING:
    from mangrove.evaluation.disasters.collection import CollectionResult, PlacedBackbone
    from mangrove.evaluation.disasters.survival import SurvivalResult
    from mangrove.routing.network.graph import Graph

GroupsOption = Annotated[
    str, typer.Option(help="Groups of topohub, comma-separated: backbone, caida, sndlib, topozoo.")
]
MaxNodesOption = Annotated[int, typer.Option(min=5, max=5000, help="Leave larger backbones out.")]
MinNodesOption = Annotated[int, typer.Option(min=3, help="Leave smaller backbones out.")]


def backbones(
    seeds: SeedsOption = 3,
    seed: SeedOption = 1,
    groups: GroupsOption = "caida,sndlib,topozoo",
    min_nodes: MinNodesOption = 5,
    max_nodes: MaxNodesOption = 200,
    pairs: Annotated[int, typer.Option(min=2, help="Pairs of nodes of each backbone, at most.")] = 100,
    regions: Annotated[int, typer.Option(min=2, help="Failure regions for each radius.")] = 100,
    only_list: Annotated[
        bool, typer.Option("--list", help="List the backbones and their sizes, and run nothing.")
    ] = False,
    plot: PlotOption = None,
    as_json: JsonOption = False,
) -> None:
    """The experiment on separated paths over all backbones of topohub that have coordinates."""
    from rich.progress import Progress

    from mangrove.evaluation.disasters.collection import listed, run_collection

    chosen = _chosen(groups, min_nodes, max_nodes)
    if only_list:
        _list(listed(chosen), as_json)
        return
    with Progress(console=stderr_console(), transient=True) as progress:
        task = progress.add_task("backbones", total=len(chosen))
        result = run_collection(
            chosen,
            seed_range(seed, seeds),
            pairs=pairs,
            regions=regions,
            on_pair=lambda done, of: progress.update(task, completed=done, total=of),
        )
    if plot is not None:
        from mangrove.evaluation.drawings.networks import draw_collection

        draw_collection(result, plot)
    report("backbones", plain(result), result.missed(), lambda: _show_collection(result), as_json=as_json)


def disasters(
    seed: SeedOption = 1,
    groups: GroupsOption = "caida,sndlib,topozoo",
    min_nodes: MinNodesOption = 5,
    max_nodes: MaxNodesOption = 200,
    max_pairs: Annotated[
        int, typer.Option(min=10, help="Pairs of each backbone; of a larger number a sample.")
    ] = 500,
    separation: Annotated[
        float,
        typer.Option(
            min=0.0, help="Kilometres that paths keep apart; 0 for a fifth of each network's width."
        ),
    ] = 200.0,
    cut_links: Annotated[
        bool, typer.Option("--cut-links", help="Cables inside the region fail too, as the crow flies.")
    ] = False,
    file: Annotated[
        Path | None, typer.Option("--file", help="Other disasters, in the form of the list that is built in.")
    ] = None,
    plot: PlotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Recorded earthquakes and storms on real backbones: who keeps a path, and with which second path."""
    from rich.progress import Progress

    from mangrove.evaluation.disasters.recorded import recorded_disasters
    from mangrove.evaluation.disasters.survival import run_survival

    known = recorded_disasters(file)
    chosen = _chosen(groups, min_nodes, max_nodes)
    with Progress(console=stderr_console(), transient=True) as progress:
        task = progress.add_task("backbones", total=len(chosen))
        result = run_survival(
            known,
            chosen,
            max_pairs=max_pairs,
            seed=seed_range(seed, 1)[0],
            cut_links=cut_links,
            separation_km=separation or None,
            on_backbone=lambda done, of: progress.update(task, completed=done, total=of),
        )
    if plot is not None:
        from mangrove.evaluation.drawings.networks import draw_survival

        draw_survival(result, plot)
    report("disasters", plain(result), result.missed(), lambda: _show_survival(result), as_json=as_json)


def _chosen(groups: str, min_nodes: int, max_nodes: int) -> dict[str, Graph]:
    from mangrove.evaluation.disasters.collection import placed_backbones

    if min_nodes > max_nodes:
        raise InputError(f"--min-nodes {min_nodes} is above --max-nodes {max_nodes}")
    return placed_backbones([group.strip() for group in groups.split(",")], min_nodes, max_nodes)


def _list(backbones: tuple[PlacedBackbone, ...], as_json: bool) -> None:
    from mangrove.cli.tables.table import Table, name_column, number_column

    if as_json:
        print_json(backbones)
        return
    table = Table(
        f"{len(backbones)} backbones with coordinates",
        name_column("backbone"),
        *map(number_column, ("nodes", "links", "width km")),
        max_rows=len(backbones),
    )
    for one in backbones:
        table.add(one.name, str(one.nodes), str(one.links), f"{one.width_km:.0f}")
    table.show(stdout_console())


def _show_collection(result: CollectionResult) -> None:
    from mangrove.cli.tables.table import Table, name_column, number_column
    from mangrove.evaluation.disasters.collection import RADIUS_SHARES

    table = Table(
        "Failures avoided, GAP div / EKSP k = 5, by radius as a share of the width",
        name_column("group"),
        number_column("nets"),
        *(number_column(f"{share:.0%}") for share in RADIUS_SHARES),
        number_column("ahead, equal, behind"),
    )
    for group in result.groups:
        table.add(
            group.group,
            str(group.backbones),
            *(
                f"{ours.mean:.2f}/{theirs.mean:.2f}"
                for ours, theirs in zip(group.improvement["gap_div"], group.improvement["ksp5"], strict=True)
            ),
            f"{group.ahead}, {group.equal}, {group.behind}",
        )
    console = stdout_console()
    table.show(console)
    console.print(
        f"{told(result.seeds)}; {result.min_nodes} to {result.max_nodes} nodes; up to {result.pairs} pairs, "
        f"{result.regions} regions a radius; means over the backbones; ahead: those where GAP avoids more "
        "failures than the better EKSP, over all radii"
    )


def _show_survival(result: SurvivalResult) -> None:
    from mangrove.cli.tables.table import Table, name_column, number_column
    from mangrove.evaluation.disasters.survival import LABELS, WAYS

    table = Table(
        "Pairs that keep a path, of those whose ends stand",
        name_column("disaster"),
        number_column("km"),
        number_column("nets"),
        number_column("pairs"),
        *(number_column(LABELS[way]) for way in WAYS),
        number_column("possible"),
    )
    for summary in result.summaries:
        table.add(
            summary.disaster.title,
            f"{summary.disaster.radius_km:g}",
            str(summary.backbones),
            str(summary.pairs),
            *(f"{100 * summary.surviving[way]:.1f}" for way in (*WAYS, "possible")),
        )
    pairs = sum(one.pairs for one in result.each)
    kept = [sum(one.surviving[way] for one in result.each) for way in WAYS]
    kept.append(sum(one.possible for one in result.each))
    shares = (f"{100 * count / max(pairs, 1):.1f}" for count in kept)
    table.add("all", "", str(len(result.each)), str(pairs), *shares)
    console = stdout_console()
    table.show(console)
    apart = "a fifth of each network's width"
    if result.separation_km is not None:
        apart = f"{result.separation_km:g} km"
    console.print(
        f"per cent; {len(result.backbones)} backbones, those counted that feel it; up to {result.max_pairs} "
        f"pairs of each (seed {result.seed}); separation {apart}; "
        f"{'cables inside fail too' if result.cut_links else 'nodes inside fail'}. "
        f"Felt by none: {', '.join(result.untouched) or 'none'}."
    )
