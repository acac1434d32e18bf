"""The events that gateways and agents of this machine wrote down, and how one led to another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from mangrove.control.events.kinds import KINDS as AGENT_KINDS
from mangrove.errors import InputError
from mangrove.model.events.event_log import Event, read_event
from mangrove.overlay.events.happenings import KINDS as GATEWAY_KINDS

E = TypeVar("E", bound=Event)

KINDS = GATEWAY_KINDS | AGENT_KINDS
"""All kinds of happenings, by name."""


def read_events(directory: Path) -> list[Event]:
    """All events of this machine's gateways and agents, in order of time. Half-written lines are left out."""
    events: list[Event] = []
    for path in sorted([*directory.glob("*.old"), *directory.glob("*.jsonl")]):
        lines = path.read_bytes().split(b"\n")[:-1]
        events += [event for line in lines if (event := read_event(line, KINDS)) is not None]
    return sorted(events, key=lambda event: event.at)


def related(events: Sequence[E], event_id: str) -> list[E]:
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
