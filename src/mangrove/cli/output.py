"""How commands speak: one JSON document on stdout with `--json`, tables and notes for people otherwise."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]


def print_json(document: object) -> None:
    """Write `document` (plain data, dataclasses or msgspec structs) as one indented JSON document."""
    import msgspec

    sys.stdout.write(msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n")


def stdout_console() -> Console:
    """Console for results."""
    from rich.console import Console

    return Console(highlight=False)


def stderr_console() -> Console:
    """Console for progress, logs and errors, so that stdout stays machine-readable."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)
