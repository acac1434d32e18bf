"""`mangrove evaluate NAME`: repeat a published experiment through the production code."""

from __future__ import annotations

from typing import Annotated

import typer

from mangrove.cli.measurement import budgets as evaluate_budgets
from mangrove.cli.measurement import failover as evaluate_failover
from mangrove.cli.measurement import routing as evaluate_routing
from mangrove.cli.output import JsonOption, print_json, stderr_console, stdout_console
from mangrove.errors import EXIT_NEGATIVE

app = typer.Typer(help="Repeat the published experiments and compare.", no_args_is_help=True)
app.command("gap")(evaluate_routing.gap)
app.command("tables")(evaluate_routing.tables)
app.command("failover")(evaluate_failover.failover)
app.command("schedules")(evaluate_failover.schedules)
app.command("false-alarms")(evaluate_failover.false_alarms)
app.command("budgets")(evaluate_budgets.budgets)


@app.command()
def allocation(
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds to repeat the experiment over.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="The first seed.")] = 1,
    as_json: JsonOption = False,
) -> None:
    """Genetic against round-robin allocation, 100 topics on 3 brokers (tables 4-6 to 4-8 of RQMOM)."""
    from rich.progress import Progress

    from mangrove.cli.tables.table import Table, name_column, number_column
    from mangrove.evaluation import allocation as experiment

    console = stderr_console()
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("seeds", total=seeds)
        summary = experiment.run(range(seed, seed + seeds), on_seed=lambda _: bar.advance(task))
    if as_json:
        print_json(summary)
    else:
        table = Table(
            f"Joint probability that all brokers are fine, mean of {seeds} seeds from {seed}",
            name_column("test"),
            name_column("start"),
            *map(number_column, ("round robin", "genetic", "search", "improvement of genetic")),
        )
        for test, rows in summary.means.items():
            for row in rows:
                numbers = (f"{row[name]:.6f}" for name in ("round_robin", "genetic", "search"))
                table.add(test, str(row["start"]), *numbers, f"{row['improvement']:.1%}")
        out = stdout_console()
        table.show(out)
        for finding, count in summary.held.items():
            out.print(f"{count:>3} of {seeds}: {finding}")
    if any(count < seeds for count in summary.held.values()):
        raise typer.Exit(EXIT_NEGATIVE)
