"""`mangrove story`: what happened in a federation, and why."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from mangrove.cli.federation.status import FederationOption
from mangrove.cli.federation.up import RunDirOption
from mangrove.cli.output import JsonOption, print_json, stdout_console

if TYPE_CHECKING:
    from rich.console import Console

    from mangrove.model.events.event_log import Event

LAST = 30
COLOURS = {"good": "green", "bad": "red", "doubtful": "yellow", "neutral": ""}


def story(
    event_id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="An event, such as seattle-17; none: the latest.")
    ] = None,
    last: Annotated[int, typer.Option(min=1, help="How many of the latest events to show.")] = LAST,
    federation: FederationOption = None,
    run_dir: RunDirOption = None,
    as_json: JsonOption = False,
) -> None:
    """Tell why something happened: an event with its causes and its consequences; or the latest events."""
    from mangrove.agent.story import read_events, related
    from mangrove.host.runtime_file import find_running_directory

    events = read_events(find_running_directory(federation, run_dir).events)
    chosen = events[-last:] if event_id is None else related(events, event_id)
    if as_json:
        from mangrove.model.events.event_log import document

        print_json([document(event) for event in chosen])
        return
    console = stdout_console()
    marked = [f"{'▶' if event.id == event_id else ' '} {clock(event.at)}" for event in chosen]
    show_events(list(zip(marked, chosen, strict=True)), console)
    if not chosen:
        console.print("nothing has happened yet")


def clock(at: float) -> str:
    """The time of day, to the millisecond."""
    return time.strftime("%H:%M:%S", time.localtime(at)) + f".{int(at * 1000) % 1000:03d}"


def show_events(events: Sequence[tuple[str, Event]], console: Console) -> None:
    """A line for each event, or a few on a narrow screen: when, which, what, and because of what."""
    from mangrove.cli.tables.table import Styled, Table, details_column, word_column

    table = Table("", word_column(""), word_column(""), details_column(""), max_rows=max(len(events), 1))
    for moment, event in events:
        words = event.happening.sentence() + (f"  ← {event.cause}" if event.cause else "")
        table.add(moment, event.id, Styled(words, COLOURS[event.happening.tone.value]))
    table.show(console)
