"""Options of jobs that say where rows come from, over which period, and what is kept from run to run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mangrove.errors import InputError

LakeOption = Annotated[
    str | None, typer.Option("--input", help="The telemetry lake: a directory or an object store's URL.")
]
TableOption = Annotated[
    list[str] | None,
    typer.Option(
        "--table",
        help="A table of Spark's catalog instead: [NAME=]CATALOG.DB.TABLE, NAME being one of the lake's; "
        "may be repeated.",
    ),
]
SinceOption = Annotated[
    str | None, typer.Option("--since", help="Only from this moment on, in UTC: 2026-03-02[T10:00].")
]
UntilOption = Annotated[str | None, typer.Option("--until", help="Only until before this moment, in UTC.")]
StateOption = Annotated[
    Path | None,
    typer.Option("--state", help="Directory that keeps sums from run to run: only what is new is read."),
]
StreamOption = Annotated[
    bool, typer.Option("--stream", help="With --state: follow the lake, and keep state and results current.")
]
SecondsOption = Annotated[
    float | None, typer.Option("--seconds", min=1, help="With --stream: follow for so long, then end.")
]


def check_stream(
    stream: bool, seconds: float | None, input_: str | None, table: list[str] | None, state: Path | None
) -> None:
    """A stream follows a lake; what it knows is in a state."""
    if seconds is not None and not stream:
        raise InputError("--seconds goes with --stream")
    if stream and (input_ is None or table):
        raise InputError("--stream follows a lake", hint="give --input, and leave --table out")
    if stream and state is None:
        raise InputError("--stream keeps a state", hint="give --state DIR")
