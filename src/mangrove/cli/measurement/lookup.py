"""`mangrove evaluate lookup`: what prepared tables cost by size of network (PCRT figure 6)."""

from __future__ import annotations

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
from mangrove.cli.output import JsonOption, stderr_console, stdout_console
from mangrove.cli.pipeline.calibrate import whole_numbers

if TYPE_CHECKING:
    from mangrove.evaluation.lookup import LookupResult


def lookup(
    seeds: SeedsOption = 3,
    seed: SeedOption = 1,
    sizes: Annotated[str, typer.Option(help="Numbers of brokers, comma-separated.")] = "6,12,25,50,100,200",
    lookups: Annotated[int, typer.Option(min=1000, help="Look-ups of each measurement.")] = 1_000_000,
    plot: PlotOption = None,
    as_json: JsonOption = False,
) -> None:
    """Time of a look-up, memory and time to build of the prepared tables, by size of network."""
    from rich.progress import Progress

    from mangrove.evaluation.lookup import run_lookup

    with Progress(console=stderr_console(), transient=True) as progress:
        task = progress.add_task("networks", total=None)
        result = run_lookup(
            seed_range(seed, seeds),
            whole_numbers("--sizes", sizes, least=5),
            lookups,
            lambda done, of: progress.update(task, completed=done, total=of),
        )
    if plot is not None:
        from mangrove.evaluation.drawings.networks import draw_lookup

        draw_lookup(result, plot)
    report("lookup", plain(result), result.missed(), lambda: _show(result), as_json=as_json)


def _show(result: LookupResult) -> None:
    from mangrove.cli.tables.table import EXTRA, Table, number_column
    from mangrove.evaluation.lookup import LINKS_A_NODE, PUBLISHED_LOOKUP_S

    table = Table(
        "Prepared tables by size of network",
        number_column("brokers"),
        number_column("colours"),
        number_column("look-up ns"),
        number_column("numpy ns", EXTRA),
        number_column("anew µs"),
        number_column("KB a broker"),
        number_column("KB uncondensed"),
        number_column("built in ms"),
        number_column("all in ms"),
    )
    for size in result.sizes:
        table.add(
            str(size.nodes),
            str(size.colours),
            size.lookup_ns.rounded(0),
            size.vectorised_ns.rounded(1),
            size.recompute_us.rounded(0),
            f"{size.condensed_bytes.mean / 1000:.1f}",
            f"{size.uncondensed_bytes.mean / 1000:.1f}",
            f"{1000 * size.own_build_s.mean:.1f}",
            f"{1000 * size.build_s.mean:.0f}",
        )
    console = stdout_console()
    table.show(console)
    console.print(
        f"{told(result.seeds)}, {LINKS_A_NODE} links a broker, every single link and site prepared for; "
        f"{result.lookups:,} look-ups at random; processor times. The paper prints {PUBLISHED_LOOKUP_S:g} s "
        "a look-up, which is below one processor cycle. Anew: shortest paths from one broker, computed "
        "again. Built: a gateway's own table; all: those of every broker, as the super broker makes them."
    )
