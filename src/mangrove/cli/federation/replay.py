"""`mangrove replay`: tell an engine again what a gateway's engine was told, and compare its decisions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mangrove.cli.federation.story import show_events
from mangrove.cli.output import JsonOption, print_json, stdout_console
from mangrove.errors import EXIT_NEGATIVE

if TYPE_CHECKING:
    from mangrove.gateway.stimuli_file import Recording
    from mangrove.overlay.stimuli.replay import Replay


def replay(
    file: Annotated[
        Path, typer.Argument(help="A recording: DIR/stimuli/DOMAIN.ring of `mangrove up --stimuli`.")
    ],
    events: Annotated[int, typer.Option(min=0, help="How many of the last events to show.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """Replay what a gateway's engine was told. Exit code 1 if an engine of this version decides otherwise."""
    from mangrove.gateway.stimuli_file import recordings
    from mangrove.overlay.stimuli.replay import replay as play

    found = [(recording, play(recording.engine, recording.stimuli)) for recording in recordings(file)]
    if as_json:
        print_json([_document(recording, result) for recording, result in found])
    else:
        for recording, result in found:
            _show(recording, result, events)
    if not all(result.identical for _, result in found):
        raise typer.Exit(EXIT_NEGATIVE)


def _document(recording: Recording, result: Replay) -> dict[str, object]:
    from mangrove.model.events.event_log import document

    return {
        "file": str(recording.path),
        "federation": recording.head.federation.name,
        "domain": recording.head.domain,
        "epoch": recording.head.epoch,
        "from_start": not recording.head.state,
        "seconds": _seconds(result),
        "stimuli": dict(sorted(result.stimuli.items())),
        "identical": result.identical,
        "differing": result.differing,
        "differences": [
            {"position": each.position, "stimulus": repr(each.stimulus), "outcome": repr(each.outcome)}
            for each in result.differences
        ],
        "events": [document(event) for event in result.events],
    }


def _show(recording: Recording, result: Replay, last: int) -> None:
    from rich.markup import escape

    console = stdout_console()
    since = "from its start" if not recording.head.state else "from a kept state"
    console.print(
        f"[bold]{recording.head.domain}[/bold] of {recording.head.federation.name}, {since}: "
        f"{result.count:,} stimuli in {_seconds(result):,.1f} s"
    )
    shown = result.events[len(result.events) - min(last, len(result.events)) :]
    first_at = result.first_at or 0.0
    show_events([(f"{event.at - first_at:9.3f} s", event) for event in shown], console)
    if result.identical:
        console.print("[green]Every decision is the same as then.[/green]")
        return
    console.print(f"[red]{result.differing:,} decisions are not the same as then.[/red] The first:")
    for each in result.differences[:3]:
        console.print(f"  at {each.position}: {escape(repr(each.stimulus))[:300]}")
        console.print(f"    now: {escape(repr(each.outcome))[:300]}")


def _seconds(result: Replay) -> float:
    if result.first_at is None or result.last_at is None:
        return 0.0
    return round(result.last_at - result.first_at, 3)
