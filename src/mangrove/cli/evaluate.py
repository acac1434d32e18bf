"""`mangrove evaluate NAME`: repeat a published experiment through the production code."""

from __future__ import annotations

import typer

from mangrove.cli import evaluate_routing

app = typer.Typer(help="Repeat the published experiments and compare.", no_args_is_help=True)
app.command("gap")(evaluate_routing.gap)
app.command("tables")(evaluate_routing.tables)
