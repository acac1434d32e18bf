"""`mangrove route paths|tables|disaster`: separated paths, failover tables, what a disaster cuts."""

from __future__ import annotations

import math
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mangrove.cli.federation.up import RunDirOption
from mangrove.cli.output import JsonOption, print_json, stderr_console
from mangrove.cli.routing.contracts import contracts
from mangrove.cli.routing.place import named_png, place_on, positive
from mangrove.cli.routing.report import (
    disaster_document,
    plan_document,
    show_disaster,
    show_plan,
    show_tables,
    tables_document,
)
from mangrove.cli.routing.topology_file import HELP, load_topology
from mangrove.errors import InputError

if TYPE_CHECKING:
    from mangrove.routing.network.graph import Graph
    from mangrove.routing.paths.planner import PathRequest

app = typer.Typer(help="Plan routes: separated paths, failover tables, disasters.", no_args_is_help=True)
app.command("contracts")(contracts)

MAX_PAIRS = 5000  # all pairs up to here; a sample of so many beyond


class MethodName(StrEnum):
    """Path methods, as `routing.paths.planner.Method` without importing it."""

    GAP_DIV = "gap-div"
    GAP_LOG = "gap-log"
    KSP = "ksp"
    DISJOINT = "disjoint"
    RESILIENT = "resilient"


TopologyArgument = Annotated[str, typer.Argument(metavar="TOPO", help=HELP)]
MethodOption = Annotated[MethodName, typer.Option("--method", help="How alternatives are found.")]
SeparationOption = Annotated[
    float | None,
    typer.Option(
        help="Distance to keep between paths, km on a geographic plane. [default: a fifth of its width]"
    ),
]
MaxDelayOption = Annotated[
    float | None, typer.Option(help="Longest delay of a path, in the unit of the weights.")
]
MaxHopsOption = Annotated[int | None, typer.Option(help="Most links of a path.")]
PathsOption = Annotated[int, typer.Option("--paths", help="Paths wanted, the primary included.")]
KOption = Annotated[int, typer.Option("--k", help="Search depth of ksp and resilient.")]
FlatOption = Annotated[
    bool, typer.Option("--flat", help="The same penalty for every near link, not scaled by distance.")
]


@app.command()
def paths(
    topology: TopologyArgument,
    source: Annotated[str, typer.Argument(metavar="SRC")],
    destination: Annotated[str, typer.Argument(metavar="DST")],
    method: MethodOption = MethodName.GAP_DIV,
    separation: SeparationOption = None,
    max_delay: MaxDelayOption = None,
    max_hops: MaxHopsOption = None,
    count: PathsOption = 2,
    k: KOption = 10,
    primary: Annotated[
        str | None, typer.Option(help="Use this primary path: its nodes, with commas between them.")
    ] = None,
    flat: FlatOption = False,
    failures: Annotated[
        Path | None,
        typer.Option(help="Failure probabilities measured by `pipeline availability` (its failures.json)."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Plan parallel paths between two nodes that one disaster does not cut together."""
    from mangrove.routing.network.graph import NoPathError
    from mangrove.routing.paths.planner import plan_paths

    request = _request(method, separation, max_delay, max_hops, count, k, flat)
    graph = load_topology(topology, failures)
    given = None if primary is None else graph.indices(name.strip() for name in primary.split(","))
    try:
        plan = plan_paths(graph, graph.index(source), graph.index(destination), request, given)
    except NoPathError as error:
        if as_json:
            print_json({"primary": None, "alternatives": [], "delay": [], "reason": error.message})
        raise
    for warning in plan.warnings:
        stderr_console().print(f"[yellow]warning:[/yellow] {warning}")
    if as_json:
        print_json(plan_document(graph, plan, method.value))
    else:
        show_plan(graph, plan, method.value)


@app.command()
def tables(
    topology: TopologyArgument,
    pairs: Annotated[bool, typer.Option("--pairs", help="Also a colour for every pair of links.")] = False,
    nodes: Annotated[bool, typer.Option(help="A colour for every single node.")] = True,
    broker: Annotated[str | None, typer.Option(help="Show the super routing table of this broker.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Make the failover tables: the next hop for every destination under every failure, before it happens."""
    from rich.progress import Progress

    from mangrove.routing.failover.colours import PreparedFailures
    from mangrove.routing.failover.tables import build_tables

    graph = load_topology(topology)
    if broker is not None:
        graph.index(broker)
    with Progress(console=stderr_console(), transient=True) as progress:
        task = progress.add_task("colours", total=None)
        made = build_tables(
            graph,
            PreparedFailures(nodes=nodes, link_pairs=pairs),
            lambda done, of: progress.update(task, completed=done, total=of),
        )
    if as_json:
        print_json(tables_document(made, broker))
    else:
        show_tables(made, broker)


@app.command()
def disaster(
    topology: Annotated[
        str | None,
        typer.Argument(metavar="[TOPO]", help=f"{HELP} With --live: the federation, if several run here."),
    ] = None,
    *,
    centre: Annotated[
        list[str],
        typer.Option(
            help="LAT,LON of the disaster (X,Y on a euclidean plane); give several for a track or a cut."
        ),
    ],
    radius: Annotated[float, typer.Option(help="Radius, km on a geographic plane.")],
    method: MethodOption = MethodName.GAP_DIV,
    separation: SeparationOption = None,
    max_delay: MaxDelayOption = None,
    max_hops: MaxHopsOption = None,
    count: PathsOption = 2,
    k: KOption = 10,
    cut_links: Annotated[
        bool, typer.Option("--cut-links", help="A link that crosses the region fails, not only nodes inside.")
    ] = False,
    sample: Annotated[
        int | None, typer.Option(help=f"Pairs to look at. [default: all, up to {MAX_PAIRS}]")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the sample.")] = 1,
    map_file: Annotated[Path | None, typer.Option("--map", help="Draw a map into this PNG file.")] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Ask a running federation: what its topics would lose now.")
    ] = False,
    run_dir: RunDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Which pairs lose all their paths in a disaster, before and after adding separated alternatives.

    With --live: which topics of a running federation would lose which paths, and what would remain.
    """
    if live:
        from mangrove.cli.routing.live_disaster import ask_running

        ask_running(topology, run_dir, centre, radius, cut_links, map_file, as_json)
        return
    if topology is None:
        raise InputError("a topology is missing", hint="give a file, or --live to ask a running federation")
    from rich.progress import Progress

    from mangrove.routing.network.regions import Region
    from mangrove.routing.paths.disaster import assess
    from mangrove.routing.paths.planner import require_places

    request = _request(method, separation, max_delay, max_hops, count, k, False)
    graph = load_topology(topology)
    require_places(graph)
    region = Region(tuple(place_on(graph, text) for text in centre), positive("--radius", radius))
    chosen = _pairs(graph, sample, seed)
    named_png(map_file)
    with Progress(console=stderr_console(), transient=True) as progress:
        task = progress.add_task("pairs", total=len(chosen))
        report = assess(
            graph,
            region,
            chosen,
            request,
            cut_links=cut_links,
            on_pair=lambda done, _: progress.update(task, completed=done),
        )
    if map_file is not None:
        from mangrove.evaluation.drawings.maps import draw_disaster

        draw_disaster(graph, report, map_file, title=Path(topology).name)
    sampled = (
        {"pairs": len(chosen), "seed": seed} if len(chosen) < graph.size * (graph.size - 1) // 2 else None
    )
    if as_json:
        print_json(disaster_document(graph, report, sampled, map_file))
    else:
        show_disaster(graph, report, sampled, map_file)


def _request(
    method: MethodName,
    separation: float | None,
    max_delay: float | None,
    max_hops: int | None,
    count: int,
    k: int,
    flat: bool,
) -> PathRequest:
    from mangrove.routing.paths.path_limits import PathLimits
    from mangrove.routing.paths.planner import Method, PathRequest

    if separation is not None:
        positive("--separation", separation)
    limits = PathLimits(math.inf if max_delay is None else max_delay, max_hops)
    return PathRequest(Method(method.value), count, separation, limits, k, not flat)


def _pairs(graph: Graph, sample: int | None, seed: int) -> list[tuple[int, int]]:
    """All pairs of nodes, or a seeded sample of them where there are very many."""
    import numpy as np

    from mangrove.routing.paths.disaster import all_pairs

    if sample is not None and sample < 1:
        raise InputError(f"--sample must be at least 1, not {sample}")
    every = all_pairs(graph)
    wanted = min(sample or MAX_PAIRS, len(every))
    if wanted == len(every):
        return every
    picked = np.random.default_rng(seed).choice(len(every), size=wanted, replace=False)
    return [every[index] for index in sorted(picked)]
