"""How `mangrove route` answers: JSON documents, and tables for people."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mangrove.cli.output import stdout_console
from mangrove.cli.tables.table import USEFUL, Table, details_column, name_column, number_column, word_column

if TYPE_CHECKING:
    from mangrove.routing.failover.tables import FailoverTables
    from mangrove.routing.network.graph import Graph
    from mangrove.routing.paths.disaster import DisasterReport
    from mangrove.routing.paths.planner import PathPlan


def _unit(graph: Graph) -> str:
    return " km" if graph.plane.value == "geo" else ""


def plan_document(graph: Graph, plan: PathPlan, method: str) -> dict[str, Any]:
    """The answer of `route paths` (docs/how-to/plan-routes.md)."""
    return {
        "primary": graph.named(plan.paths[0]),
        "alternatives": [graph.named(path) for path in plan.paths[1:]],
        "delay": [graph.length(path) for path in plan.paths],
        "proximity": plan.proximity,
        "inner_proximity": _inner_proximity(graph, plan),
        "resiliency": plan.resiliency,
        "penalty_steps": plan.penalty_steps,
        "penalties": plan.penalties,
        "method": method,
        "separation": plan.separation,
        "warnings": plan.warnings,
    }


def _inner_proximity(graph: Graph, plan: PathPlan) -> float | None:
    """Largest proximity to the primary with the common ends left out, which make their neighbours near."""
    from mangrove.routing.network.proximity import inner_near_share

    if plan.separation is None or len(plan.paths) < 2:
        return None
    primary, separation = plan.paths[0], plan.separation
    return max(inner_near_share(graph, primary, path, separation) for path in plan.paths[1:])


def show_plan(graph: Graph, plan: PathPlan, method: str) -> None:
    """The paths as a table."""
    from mangrove.routing.network.proximity import inner_near_share, near_share
    from mangrove.routing.paths.resilience import resiliency

    table = Table(
        f"Paths by {method}",
        word_column(""),
        number_column("delay"),
        number_column("hops"),
        number_column("proximity"),
        number_column("…without ends", USEFUL),
        number_column("resiliency"),
        details_column("path"),
    )
    for place, path in enumerate(plan.paths):
        near = inner = ""
        if place > 0 and plan.separation is not None:
            near = f"{near_share(graph, plan.paths[0], path, plan.separation):.2f}"
            inner = f"{inner_near_share(graph, plan.paths[0], path, plan.separation):.2f}"
        table.add(
            "primary" if place == 0 else f"alt. {place}",
            f"{graph.length(path):.4g}",
            str(len(path) - 1),
            near,
            inner,
            f"{resiliency(graph, [path]):.6f}",
            " – ".join(graph.named(path)),
        )
    console = stdout_console()
    table.show(console)
    kept = "" if plan.separation is None else f"separation {plan.separation:.4g}{_unit(graph)}; "
    steps = f"; penalised searches: {plan.penalty_steps}" if plan.penalty_steps else ""
    console.print(f"{kept}resiliency of the set {plan.resiliency:.6f}{steps}")


def tables_document(made: FailoverTables, broker: str | None) -> dict[str, Any]:
    """The answer of `route tables`, for all brokers or for one."""
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


def show_tables(made: FailoverTables, broker: str | None) -> None:
    """What the tables take, and the super routing table of one broker."""
    console = stdout_console()
    graph, size = made.book.graph, made.size()
    if broker is not None:
        table = Table(
            f"Super routing table of {broker}",
            number_column("address"),
            name_column("destination"),
            name_column("next hop"),
            details_column("colours"),
        )
        for entry in made.broker(broker).super_table():
            shown = ", ".join(str(colour) for colour in entry.colours[:16])
            more = f", … ({len(entry.colours)} in all)" if len(entry.colours) > 16 else ""
            table.add(str(entry.address), entry.destination, entry.next_hop, shown + more)
        table.show(console)
    summary = Table("Failover tables", word_column(""), number_column(""))
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
        summary.add(label, value)
    summary.show(console)


def disaster_document(
    graph: Graph, report: DisasterReport, sampled: dict[str, int] | None, map_file: Path | None
) -> dict[str, Any]:
    """The answer of `route disaster`: pairs without a path before and after, and why."""
    from mangrove.routing.paths.disaster import Fate

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


def show_disaster(
    graph: Graph, report: DisasterReport, sampled: dict[str, int] | None, map_file: Path | None
) -> None:
    """The fate of the pairs as a table."""
    from mangrove.routing.paths.disaster import Fate

    console = stdout_console()
    meaning = {
        Fate.SAVED: "saved by an alternative",
        Fate.LOST: "lost, though a way around exists",
        Fate.CUT_OFF: "cut off, no way around exists",
        Fate.STRUCK: "an end is inside the region",
        Fate.UNCONNECTED: "never connected",
    }
    table = Table(
        "Pairs whose primary path fails", word_column("fate"), number_column("pairs"), details_column("which")
    )
    for fate, words in meaning.items():
        entries = report.having(fate)
        shown = ", ".join(" – ".join(graph.named(entry.pair)) for entry in entries[:6])
        more = f" … {len(entries) - 6:,} more" if len(entries) > 6 else ""
        table.add(words, f"{len(entries):,}", shown + more)
    table.show(console)
    inside = [name for name, gone in zip(graph.names, report.damage.nodes, strict=True) if gone]
    console.print(f"inside the region: {', '.join(inside) or 'no node'}")
    of = f"{report.pairs} pairs" + (f" (a sample, seed {sampled['seed']})" if sampled else "")
    console.print(
        f"without any path: [bold]{report.lost_before}[/bold] of {of} with the primary alone, "
        f"[bold]{report.lost_after}[/bold] with separated alternatives"
    )
    if map_file is not None:
        console.print(f"map: {map_file}")
