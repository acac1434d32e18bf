"""`mangrove route disaster --live`: the question asked of a running federation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mangrove.cli.output import print_json, stdout_console
from mangrove.cli.routing.place import named_png, place_on, positive
from mangrove.cli.running import run_async
from mangrove.cli.tables.table import Table, bad, details_column, name_column, number_column, word_column

if TYPE_CHECKING:
    from pathlib import Path

    from mangrove.agent.live_disaster import LiveDisaster
    from mangrove.model.endpoints import Runtime
    from mangrove.model.status import GatewayStatus


def ask_running(
    name: str | None,
    run_dir: Path | None,
    centre: list[str],
    radius: float,
    cut_links: bool,
    map_file: Path | None,
    as_json: bool,
) -> None:
    """Ask all gateways what they carry along which paths, and say what the region would take of it."""
    from mangrove.agent.live_disaster import live_disaster
    from mangrove.host.runtime_file import find_running
    from mangrove.routing.network.regions import Region
    from mangrove.routing.network.topology import graph_of_federation
    from mangrove.routing.paths.planner import require_places

    positive("--radius", radius)
    named_png(map_file)
    runtime = find_running(name, run_dir)
    plain = graph_of_federation(runtime.federation)
    require_places(plain, linked=True)
    region = Region(tuple(place_on(plain, text) for text in centre), radius)
    found = live_disaster(runtime.federation, run_async(_statuses(runtime)), region, cut_links=cut_links)
    if map_file is not None:
        from mangrove.evaluation.drawings.maps import draw_disaster

        draw_disaster(found.graph, found.report(), map_file, title=f"{runtime.federation.name}, as it runs")
    if as_json:
        print_json(_document(runtime, found, map_file))
    else:
        _show(found, map_file)


async def _statuses(runtime: Runtime) -> dict[str, GatewayStatus | None]:
    import asyncio

    from mangrove.agent.inspection import gateway_status

    found = await asyncio.gather(*(gateway_status(each) for each in runtime.domains.values()))
    return dict(zip(runtime.domains, found, strict=True))


def _inside(found: LiveDisaster) -> list[str]:
    return [name for name, gone in zip(found.graph.names, found.damage.nodes, strict=True) if gone]


def _document(runtime: Runtime, found: LiveDisaster, map_file: Path | None) -> dict[str, object]:
    import msgspec

    from mangrove.agent.live_disaster import Outcome

    graph = found.graph
    return {
        "federation": runtime.federation.name,
        "region": {"points": found.region.points, "radius": found.region.radius},
        "nodes_inside": _inside(found),
        "links_cut": [
            graph.named(ends) for ends, gone in zip(graph.ends, found.damage.links, strict=True) if gone
        ],
        "outcomes": {outcome.value: len(found.having(outcome)) for outcome in Outcome},
        "topics": [msgspec.to_builtins(fate) for fate in found.fates],
        "silent": list(found.silent),
        "map": None if map_file is None else str(map_file),
    }


def _show(found: LiveDisaster, map_file: Path | None) -> None:
    from mangrove.agent.live_disaster import Outcome

    console = stdout_console()
    table = Table(
        "Topics that the disaster would touch",
        name_column("topic"),
        name_column("from"),
        name_column("to"),
        word_column("outcome"),
        number_column("delay ms"),
        details_column("loses"),
        details_column("remains"),
    )
    for fate in found.having(Outcome.CUT_OFF, Outcome.STRUCK, Outcome.MOVES, Outcome.SURVIVES):
        grave = fate.outcome in (Outcome.CUT_OFF, Outcome.STRUCK)
        delay = "–" if fate.delay_ms is None else f"{fate.delay_ms:.1f}"
        table.add(
            fate.topic,
            fate.source,
            fate.destination,
            bad(fate.outcome.value) if grave else fate.outcome.value,
            bad(f"{delay} (late)") if fate.late else delay,
            _ways(fate.lost),
            _ways(fate.remaining),
            matters=grave or fate.late,
        )
    if table:
        table.show(console)
    console.print(f"inside the region: {', '.join(_inside(found)) or 'no site'}")
    untouched = len(found.having(Outcome.UNTOUCHED))
    console.print(f"untouched: {untouched} of {len(found.fates)} ways that are in use")
    for domain in found.silent:
        console.print(f"[yellow]warning:[/yellow] the gateway of {domain} does not answer")
    if map_file is not None:
        console.print(f"map: {map_file}")


def _ways(paths: tuple[tuple[str, ...], ...]) -> str:
    return "; ".join(" → ".join(path) for path in paths) or "nothing"
