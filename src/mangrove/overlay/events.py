"""What happened, and why: the events of a gateway, each with the event that caused it."""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

KEPT = 1000


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened at one gateway."""

    id: str
    at: float
    kind: str
    cause: str | None = None
    details: dict[str, Any] = {}


class EventLog:
    """Numbers the events of one gateway; keeps the last ones, and hands new ones out to be written down."""

    def __init__(self, domain: str) -> None:
        self._domain = domain
        self._count = 0
        self._fresh: list[Event] = []
        self.recent: deque[Event] = deque(maxlen=KEPT)

    def note(self, kind: str, now: float, cause: Event | None = None, **details: Any) -> Event:
        """Record an event."""
        self._count += 1
        event = Event(
            id=f"{self._domain}-{self._count}",
            at=now,
            kind=kind,
            cause=cause.id if cause is not None else None,
            details=details,
        )
        self.recent.append(event)
        self._fresh.append(event)
        return event

    def take(self) -> list[Event]:
        """Events since the last call."""
        fresh, self._fresh = self._fresh, []
        return fresh
