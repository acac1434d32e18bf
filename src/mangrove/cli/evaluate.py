"""`mangrove evaluate NAME`: repeat a published experiment through the production code."""

from __future__ import annotations

import typer

app = typer.Typer(help="Repeat the published experiments and compare.", no_args_is_help=True)
