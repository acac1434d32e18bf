"""`mangrove route paths|tables|disaster`: separated paths, failover tables, what a disaster cuts."""

from __future__ import annotations

import math
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mangrove.cli.output import JsonOption, print_json, stderr_console, stdout_console
from mangrove.cli.topology_file import HELP, load_topology
from mangrove.errors import InputError

if TYPE_CHECKING:
    from mangrove.routing.disaster import DisasterReport
    from mangrove.routing.graph import Graph
    from mangrove.routing.planner import PathPlan, PathRequest
    from mangrove.routing.tables import FailoverTables

app = typer.Typer(help="Plan routes: separated paths, failover tables, disasters.", no_args_is_help=True)

MOST_PAIRS = 5000  # all pairs up to here; a sample of so many beyond


class MethodName(StrEnum):
    """Path methods, as `routing.planner.Method` without importing it."""

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
    as_json: JsonOption = False,
) -> None:
    """Plan parallel paths between two nodes that one disaster does not cut together."""
    from mangrove.routing.graph import NoPathError
    from mangrove.routing.planner import plan_paths

    request = _request(method, separation, max_delay, max_hops, count, k, flat)
    graph = load_topology(topology)
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
        print_json(_plan_document(graph, plan, method))
    else:
        _show_plan(graph, plan, method)


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

    from mangrove.routing.colours import Scope
    from mangrove.routing.tables import build_tables

    graph = load_topology(topology)
    if broker is not None:
        graph.index(broker)
    with Progress(console=stderr_console(), transient=True) as progress:
        task = progress.add_task("colours", total=None)
        made = build_tables(
            graph,
            Scope(nodes=nodes, link_pairs=pairs),
            lambda done, of: progress.update(task, completed=done, total=of),
        )
    if as_json:
        print_json(_tables_document(made, broker))
    else:
        _show_tables(made, broker)


@app.command()
def disaster(
    topology: TopologyArgument,
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
        int | None, typer.Option(help=f"Pairs to look at. [default: all, up to {MOST_PAIRS}]")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the sample.")] = 1,
    map_file: Annotated[Path | None, typer.Option("--map", help="Draw a map into this PNG file.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Which pairs lose all their paths in a disaster, before and after adding separated alternatives."""
    from rich.progress import Progress

    from mangrove.routing.disaster import assess
    from mangrove.routing.planner import require_places
    from mangrove.routing.regions import Region

    request = _request(method, separation, max_delay, max_hops, count, k, False)
    graph = load_topology(topology)
    require_places(graph)
    region = Region(tuple(_place(graph, text) for text in centre), _positive("--radius", radius))
    chosen = _pairs(graph, sample, seed)
    if map_file is not None and map_file.suffix.lower() != ".png":
        raise InputError(f"the map is a PNG file, and {map_file} is not named so")
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
        from mangrove.evaluation.maps import draw_disaster

        draw_disaster(graph, report, map_file, title=topology)
    sampled = (
        {"pairs": len(chosen), "seed": seed} if len(chosen) < graph.size * (graph.size - 1) // 2 else None
    )
    if as_json:
        print_json(_disaster_document(graph, report, sampled, map_file))
    else:
        _show_disaster(graph, report, sampled, map_file)


def _request(
    method: MethodName,
    separation: float | None,
    max_delay: float | None,
    max_hops: int | None,
    count: int,
    k: int,
    flat: bool,
) -> PathRequest:
    from mangrove.routing.constraints import Constraints
    from mangrove.routing.planner import Method, PathRequest

    if separation is not None:
        _positive("--separation", separation)
    limits = Constraints(math.inf if max_delay is None else max_delay, max_hops)
    return PathRequest(Method(method.value), count, separation, limits, k, not flat)


def _positive(option: str, value: float) -> float:
    if not (value > 0 and math.isfinite(value)):
        raise InputError(f"{option} must be a positive distance, not {value:g}")
    return value


def _place(graph: Graph, text: str) -> tuple[float, float]:
    """A place on the graph's plane, out of two numbers with a comma."""
    from mangrove.routing.geography import Plane

    try:
        first, second = (float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"--centre {text!r} is not a place", hint="write --centre 40.7,-74.0") from None
    if graph.plane is Plane.GEO and not (abs(first) <= 90 and abs(second) <= 180):
        raise InputError(
            f"--centre {text} is not on the earth",
            hint="latitude (-90 to 90) comes first, then longitude (-180 to 180)",
        )
    if not (math.isfinite(first) and math.isfinite(second)):
        raise InputError(f"--centre {text} is not a place: both numbers must be finite")
    return first, second


def _pairs(graph: Graph, sample: int | None, seed: int) -> list[tuple[int, int]]:
    """All pairs of nodes, or a seeded sample of them where there are very many."""
    import numpy as np

    from mangrove.routing.disaster import all_pairs

    if sample is not None and sample < 1:
        raise InputError(f"--sample must be at least 1, not {sample}")
    every = all_pairs(graph)
    wanted = min(sample or MOST_PAIRS, len(every))
    if wanted == len(every):
        return every
    picked = np.random.default_rng(seed).choice(len(every), size=wanted, replace=False)
    return [every[index] for index in sorted(picked)]


def _unit(graph: Graph) -> str:
    return " km" if graph.plane.value == "geo" else ""


def _plan_document(graph: Graph, plan: PathPlan, method: MethodName) -> dict[str, Any]:
    return {
        "primary": graph.named(plan.paths[0]),
        "alternatives": [graph.named(path) for path in plan.paths[1:]],
        "delay": [graph.length(path) for path in plan.paths],
        "proximity": plan.proximity,
        "inner_proximity": _inner_proximity(graph, plan),
        "resiliency": plan.resiliency,
        "penalty_steps": plan.penalty_steps,
        "penalties": plan.penalties,
        "method": method.value,
        "separation": plan.separation,
        "warnings": plan.warnings,
    }


def _inner_proximity(graph: Graph, plan: PathPlan) -> float | None:
    """Largest proximity to the primary with the common ends left out, which make their neighbours near."""
    from mangrove.routing.proximity import inner_near_share

    if plan.separation is None or len(plan.paths) < 2:
        return None
    primary, separation = plan.paths[0], plan.separation
    return max(inner_near_share(graph, primary, path, separation) for path in plan.paths[1:])


def _show_plan(graph: Graph, plan: PathPlan, method: MethodName) -> None:
    from rich.table import Table

    from mangrove.routing.proximity import inner_near_share, near_share
    from mangrove.routing.resilience import resiliency

    table = Table(title=f"Paths by {method.value}")
    table.add_column(no_wrap=True)
    table.add_column("path")
    for heading in ("delay", "hops", "proximity", "…without ends", "resiliency"):
        table.add_column(heading, justify="right")
    for number, path in enumerate(plan.paths):
        near = inner = ""
        if number > 0 and plan.separation is not None:
            near = f"{near_share(graph, plan.paths[0], path, plan.separation):.2f}"
            inner = f"{inner_near_share(graph, plan.paths[0], path, plan.separation):.2f}"
        table.add_row(
            "primary" if number == 0 else f"alt. {number}",
            " – ".join(graph.named(path)),
            f"{graph.length(path):.4g}",
            str(len(path) - 1),
            near,
            inner,
            f"{resiliency(graph, [path]):.6f}",
        )
    console = stdout_console()
    console.print(table)
    kept = "" if plan.separation is None else f"separation {plan.separation:.4g}{_unit(graph)}; "
    steps = f"; penalised searches: {plan.penalty_steps}" if plan.penalty_steps else ""
    console.print(f"{kept}resiliency of the set {plan.resiliency:.6f}{steps}")


def _tables_document(made: FailoverTables, broker: str | None) -> dict[str, Any]:
    size = made.size()
    graph = made.book.graph
    return {
        "topology": graph.topology_hash,
        "version": made.version,
        "colours": [{"colour": c.number, "links": c.links, "nodes": c.nodes} for c in made.colours],
        "brokers": {
            name: {
                "super_table": made.broker(name).super_table(),
                "entries_bound": (graph.size - 1) * graph.degree(made.index(name)),
            }
            for name in ([broker] if broker is not None else made.names)
        },
        "bytes": {"condensed": size.condensed_bytes, "uncondensed": size.uncondensed_bytes},
        "entries": {
            "condensed": size.entries,
            "uncondensed": size.entries_uncondensed,
            "bound": size.entries_bound,
        },
    }


def _show_tables(made: FailoverTables, broker: str | None) -> None:
    from rich.table import Table

    console = stdout_console()
    graph, size = made.book.graph, made.size()
    if broker is not None:
        table = Table(title=f"Super routing table of {broker}")
        for heading in ("address", "destination", "next hop", "colours"):
            table.add_column(heading, justify="right" if heading == "address" else "left")
        for entry in made.broker(broker).super_table():
            shown = ", ".join(str(colour) for colour in entry.colours[:16])
            more = f", … ({len(entry.colours)} in all)" if len(entry.colours) > 16 else ""
            table.add_row(str(entry.address), entry.destination, entry.next_hop, shown + more)
        console.print(table)
    summary = Table(title="Failover tables", show_header=False)
    summary.add_column()
    summary.add_column(justify="right")
    for label, value in (
        ("topology", graph.topology_hash),
        ("version of the tables", made.version),
        ("brokers and links", f"{graph.size} and {graph.links}"),
        ("colours (failure states)", f"{len(made.colours):,}"),
        ("entries, condensed", f"{size.entries:,}"),
        ("entries at most, (N-1) × degree", f"{size.entries_bound:,}"),
        ("entries, one table per colour", f"{size.entries_uncondensed:,}"),
        ("bytes, condensed with look-up arrays", f"{size.condensed_bytes:,}"),
        ("bytes, one table per colour", f"{size.uncondensed_bytes:,}"),
    ):
        summary.add_row(label, value)
    console.print(summary)


def _disaster_document(
    graph: Graph, report: DisasterReport, sampled: dict[str, int] | None, map_file: Path | None
) -> dict[str, Any]:
    from mangrove.routing.disaster import Fate

    def named(*fates: Fate) -> list[tuple[str, ...]]:
        return [graph.named(entry.pair) for entry in report.having(*fates)]

    inside = [name for name, gone in zip(graph.names, report.damage.nodes, strict=True) if gone]
    cut = [graph.named(ends) for ends, gone in zip(graph.ends, report.damage.links, strict=True) if gone]
    return {
        "region": {"points": report.region.points, "radius": report.region.radius},
        "nodes_inside": inside,
        "links_cut": cut,
        "pairs": report.pairs,
        "sampled": sampled,
        "before": {"lost": report.lost_before, "pairs": named(*Fate)},
        "after": {
            "lost": report.lost_after,
            "pairs": named(*(fate for fate in Fate if fate is not Fate.SAVED)),
        },
        "lost_because": {fate.value: named(fate) for fate in Fate if fate is not Fate.SAVED},
        "saved": [
            {"pair": graph.named(entry.pair), "paths": [graph.named(path) for path in entry.paths]}
            for entry in report.having(Fate.SAVED)
        ],
        "map": None if map_file is None else str(map_file),
    }


def _show_disaster(
    graph: Graph, report: DisasterReport, sampled: dict[str, int] | None, map_file: Path | None
) -> None:
    from rich.table import Table

    from mangrove.routing.disaster import Fate

    console = stdout_console()
    meaning = {
        Fate.SAVED: "saved by an alternative",
        Fate.LOST: "lost, though a way around exists",
        Fate.CUT_OFF: "cut off, no way around exists",
        Fate.STRUCK: "an end is inside the region",
        Fate.UNCONNECTED: "never connected",
    }
    table = Table(title="Pairs whose primary path fails")
    table.add_column("fate")
    table.add_column("pairs", justify="right")
    table.add_column("which")
    for fate, words in meaning.items():
        entries = report.having(fate)
        shown = ", ".join(" – ".join(graph.named(entry.pair)) for entry in entries[:6])
        table.add_row(words, str(len(entries)), shown + (", …" if len(entries) > 6 else ""))
    console.print(table)
    inside = [name for name, gone in zip(graph.names, report.damage.nodes, strict=True) if gone]
    console.print(f"inside the region: {', '.join(inside) or 'no node'}")
    of = f"{report.pairs} pairs" + (f" (a sample, seed {sampled['seed']})" if sampled else "")
    console.print(
        f"without any path: [bold]{report.lost_before}[/bold] of {of} with the primary alone, "
        f"[bold]{report.lost_after}[/bold] with separated alternatives"
    )
    if map_file is not None:
        console.print(f"map: {map_file}")
