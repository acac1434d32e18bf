"""The event logs of a host's processes, read as they grow, for those who are on other machines."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from mangrove.model.events.event_log import event_number
from mangrove.model.stream.events import EventHead, EventsPage, EventsQuestion

KEPT = 5_000
KEPT_BYTES = 8 << 20
MAX_LINE_BYTES = 32 << 10
"""No event is so long."""
BACKLOG_BYTES = 2 << 20
"""Of a file that was there before, so much is read from its end."""
READ_BYTES = 1 << 20
"""Of each file at a time."""
PAGE_LINES, PAGE_BYTES = 1_000, 256 << 10
"""Of one answer: a management broker carries others' words meanwhile."""
BEGINNING_BYTES = 256
"""By so much of it a file is told from another: the number of its first event is in there, and the time."""


class _Reached(NamedTuple):
    """How far a file was read, and how it begins."""

    offset: int
    beginning: bytes


class EventTail:
    """The last lines of some logs, numbered in the order in which they were read; nothing is read twice."""

    def __init__(self, paths: Iterable[Path]) -> None:
        """A log that is full is renamed to `.old`, and begun anew."""
        self._paths = [each for path in paths for each in (path.with_suffix(".old"), path)]
        self._life = time.time_ns()
        self._read: dict[tuple[int, int], _Reached] = {}
        """How far each file was read, by its device and inode: a name may be of another file soon."""
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._count = 0

    def look(self) -> EventHead:
        """Read what was added. Half-written lines wait until they are whole; what is no event is left out."""
        for path in self._paths:
            try:
                with path.open("rb") as file:
                    self._take(file)
            except FileNotFoundError:
                continue  # there is none yet, or it was renamed this moment; the next look finds it
        while len(self._lines) > KEPT or self._bytes > KEPT_BYTES:
            self._bytes -= len(self._lines.popleft())
        return EventHead(life=self._life, count=self._count)

    def page(self, asked: EventsQuestion) -> EventsPage:
        """What comes after the events that somebody has."""
        self.look()
        oldest = self._count - len(self._lines)
        after = asked.after if asked.life == self._life and asked.after >= 0 else 0
        first = min(max(after, oldest), self._count)
        lines: list[msgspec.Raw] = []
        size = 0
        for line in islice(self._lines, first - oldest, None):
            size += len(line)
            if lines and (len(lines) == PAGE_LINES or size > PAGE_BYTES):
                break
            lines.append(msgspec.Raw(line))
        return EventsPage(life=self._life, count=self._count, first=first, lines=tuple(lines))

    def _take(self, file: BinaryIO) -> None:
        about = os.fstat(file.fileno())
        place = (about.st_dev, about.st_ino)
        reached = self._read.get(place)
        if reached is not None and file.read(len(reached.beginning)) != reached.beginning:
            reached = _Reached(0, b"")  # a new file in the place of one that is gone, or one that was emptied
        offset = max(0, about.st_size - BACKLOG_BYTES) if reached is None else reached.offset
        if about.st_size <= offset:
            return
        file.seek(offset)
        while read := file.read(READ_BYTES):
            whole, newline, _ = read.rpartition(b"\n")
            if not newline and len(read) < READ_BYTES:
                break  # it waits until it is whole
            offset += len(whole) + 1 if newline else len(read)
            file.seek(offset)
            for line in whole.split(b"\n"):
                if len(line) <= MAX_LINE_BYTES and event_number(line) is not None:
                    self._lines.append(line)
                    self._bytes += len(line)
                    self._count += 1
        file.seek(0)
        self._read[place] = _Reached(offset, file.read(min(offset, BEGINNING_BYTES)))
