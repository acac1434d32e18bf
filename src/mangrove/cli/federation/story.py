"""`mangrove story`: what happened in a federation, and why."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mangrove.cli.federation.status import FederationOption
from mangrove.cli.federation.up import RunDirOption
from mangrove.cli.output import JsonOption, print_json, stdout_console
from mangrove.errors import InputError

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


def read_events(directory: Path) -> list[Event]:
    """All events of this machine's gateways and agents, in order of time. Half-written lines are left out."""
    from mangrove.control.events.kinds import KINDS as AGENT_KINDS
    from mangrove.model.events.event_log import read_event
    from mangrove.overlay.events.happenings import KINDS as GATEWAY_KINDS

    kinds = GATEWAY_KINDS | AGENT_KINDS
    events: list[Event] = []
    for path in sorted([*directory.glob("*.old"), *directory.glob("*.jsonl")]):
        lines = path.read_bytes().split(b"\n")[:-1]
        events += [event for line in lines if (event := read_event(line, kinds)) is not None]
    return sorted(events, key=lambda event: event.at)


def related(events: list[Event], event_id: str) -> list[Event]:
    """An event, what caused it, and what it caused, in order of time."""
    by_id = {event.id: event for event in events}
    if event_id not in by_id:
        latest = ", ".join(event.id for event in events[-5:]) or "none"
        raise InputError(f"there is no event {event_id!r}", hint=f"the latest are: {latest}")
    chosen = set()
    cause: str | None = event_id
    while cause is not None and cause in by_id and cause not in chosen:
        chosen.add(cause)
        cause = by_id[cause].cause
    consequences = {event_id}
    for event in events:
        if event.cause in consequences:
            consequences.add(event.id)
    return [event for event in events if event.id in chosen | consequences]
