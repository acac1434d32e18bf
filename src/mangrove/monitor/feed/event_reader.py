"""The event log of this machine's processes, read as it grows: nothing is read twice."""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right, insort
from pathlib import Path
from typing import BinaryIO

from mangrove.agent.story import KINDS
from mangrove.model.events.event_log import Event, read_event

MAX_EVENTS = 50_000
"""Older ones are let go of, and counted."""
MAX_READ_BYTES = 4 << 20
"""Of each file at a time, so that a long log does not hold up who waits."""


def _moment(event: Event) -> float:
    return event.at


class EventReader:
    """All events that are written in one folder, in order of time."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._read: dict[tuple[int, int], int] = {}
        """How far each file was read, by its device and inode: a full file is renamed."""
        self._events: list[Event] = []
        self._ids: set[str] = set()
        self.forgotten = 0

    def look(self) -> bool:
        """Read what was added; whether anything was. Half-written lines wait until they are whole."""
        if self._directory is None or not self._directory.is_dir():
            return False
        before = len(self._ids) + self.forgotten
        for path in sorted([*self._directory.glob("*.old"), *self._directory.glob("*.jsonl")]):
            try:
                with path.open("rb") as file:
                    self._take(file)
            except FileNotFoundError:
                continue  # it was renamed this moment; the next look finds it
        surplus = len(self._events) - MAX_EVENTS
        if surplus > 0:
            self.forgotten += surplus
            self._ids.difference_update(event.id for event in self._events[:surplus])
            del self._events[:surplus]
        return len(self._ids) + self.forgotten != before

    def between(self, since: float | None, until: float | None, last: int) -> tuple[Event, ...]:
        """The `last` events of a span of time, in order; bounds in seconds since 1970."""
        first = 0 if since is None else bisect_left(self._events, since, key=_moment)
        end = len(self._events) if until is None else bisect_right(self._events, until, key=_moment)
        return tuple(self._events[max(first, end - last) : end])

    def _take(self, file: BinaryIO) -> None:
        about = os.fstat(file.fileno())
        place = (about.st_dev, about.st_ino)
        offset = self._read.get(place, 0)
        if about.st_size <= offset:
            return
        file.seek(offset)
        read = file.read(MAX_READ_BYTES)
        whole, newline, _ = read.rpartition(b"\n")
        if not newline and len(read) == MAX_READ_BYTES:
            whole = read  # no event is so long
        self._read[place] = offset + len(whole) + len(newline)
        for line in whole.split(b"\n"):
            event = read_event(line, KINDS)
            if event is not None and event.id not in self._ids:
                self._ids.add(event.id)
                insort(self._events, event, key=_moment)

    @property
    def events(self) -> list[Event]:
        """All that are kept; not to be changed."""
        return self._events
