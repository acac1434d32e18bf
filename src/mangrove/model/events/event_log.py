"""Events: happenings with a number, a time and the event that caused them, here or in another process."""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

from mangrove.model.events.happening import Happening, Kinds
from mangrove.model.unreadable import UNREADABLE

KEPT = 1000
MAX_FRESH = 10_000
"""Events that nobody has taken yet; beyond it the oldest go, and are counted."""

EventId = str
"""`<process>-<number>`: unique in the federation, so that a cause may lie in another process.

A gateway's process is called by its domain alone, an agent's `<domain>-agent`.
"""


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened in one process."""

    id: EventId
    at: float
    cause: EventId | None
    happening: Happening

    @property
    def kind(self) -> str:
        """The name of its kind."""
        return type(self.happening).__name__


class _Document(msgspec.Struct, frozen=True, kw_only=True):
    """An event as it is written down: kind and details apart, so that old files can be read."""

    id: str
    at: float
    kind: str
    cause: str | None = None
    details: dict[str, Any] = {}


_decoder = msgspec.json.Decoder(_Document)


def document(event: Event, clock_shift_s: float = 0.0) -> dict[str, object]:
    """An event as plain data."""
    written = _Document(
        id=event.id,
        at=event.at + clock_shift_s,
        kind=event.kind,
        cause=event.cause,
        details=msgspec.to_builtins(event.happening),
    )
    plain: dict[str, object] = msgspec.to_builtins(written)
    return plain


def read_event(line: bytes, kinds: Kinds) -> Event | None:
    """An event from the line that was written of it; None if it is cut off or of none of the kinds."""
    try:
        found = _decoder.decode(line)
        kind = kinds.get(found.kind)
        if kind is None:
            return None
        happening = msgspec.convert(found.details, kind)
    except UNREADABLE:
        return None
    return Event(id=found.id, at=found.at, cause=found.cause, happening=happening)


def event_number(line: bytes) -> int | None:
    """The number of the event on a line, of whatever kind it is; None if the line is cut off."""
    try:
        number = _decoder.decode(line).id.rpartition("-")[2]
    except UNREADABLE:
        return None
    return int(number) if number.isascii() and number.isdigit() else None


class EventLog:
    """Numbers the events of one process; keeps the last ones, and hands new ones out to be written down."""

    def __init__(self, process: str, count: int = 0) -> None:
        """`count` events of earlier lives of this process have been written down."""
        self._process = process
        self._count = count
        self._fresh: deque[Event] = deque(maxlen=MAX_FRESH)
        self.recent: deque[Event] = deque(maxlen=KEPT)
        self.lost = 0

    def note(self, happening: Happening, now: float, cause: EventId | None = None) -> EventId:
        """Record that something happened; returns the name by which it can be a cause."""
        self._count += 1
        event = Event(id=f"{self._process}-{self._count}", at=now, cause=cause, happening=happening)
        self.recent.append(event)
        self.lost += len(self._fresh) == MAX_FRESH
        self._fresh.append(event)
        return event.id

    @property
    def next_id(self) -> EventId:
        """The name that the next event will have."""
        return f"{self._process}-{self._count + 1}"

    def take(self) -> list[Event]:
        """Events since the last call."""
        fresh = list(self._fresh)
        self._fresh.clear()
        return fresh
