"""The event log of a gateway or an agent on disk: a JSON document a line, to tell a story afterwards."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from mangrove.model.events.event_log import Event, document, event_number

if TYPE_CHECKING:
    from mangrove.host.tracing.decisions import DecisionSpans
    from mangrove.host.tracing.tracer import Tracer

log = logging.getLogger(__name__)

MAX_BYTES = 16 << 20


class EventFile:
    """Appends events; when the file is full it becomes `.old` and a new one begins."""

    def __init__(self, path: Path | None, tracer: Tracer | None = None) -> None:
        """With a `tracer`, events are spans as well."""
        self._path = path
        self._lost = 0
        """Events that could not be written, as when the disk is full, since all could be."""
        self._sound = False
        """Whether the file is known to end with a whole line."""
        # Events carry the event loop's time; on disk they carry the time of day.
        self._clock_shift_s = time.time() - time.monotonic()
        self._spans: DecisionSpans | None = None
        if tracer is not None:
            from mangrove.host.tracing.decisions import DecisionSpans

            self._spans = DecisionSpans(tracer, self._clock_shift_s)
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)

    def last_number(self) -> int:
        """The number of the last event that an earlier life of the process wrote; names are never reused."""
        if self._path is None:
            return 0
        for path in (self._path, self._path.with_suffix(".old")):
            if path.exists():
                for line in reversed(path.read_bytes().splitlines()):
                    if (number := event_number(line)) is not None:
                        return number
        return 0

    def write(self, events: list[Event]) -> None:
        """Write events down. Nothing is raised: a full disk costs the story, and stops nobody.

        An event with something that no document can hold costs itself alone.
        """
        if events and self._spans is not None:
            self._spans.tell(events)
        if not events or self._path is None:
            return
        lines, odd = [], 0
        for event in events:
            try:
                lines.append(msgspec.json.encode(document(event, self._clock_shift_s)) + b"\n")
            except (OverflowError, ValueError, TypeError) as error:
                odd += 1
                self._complain(self._path, error, 1)
        try:
            self._append(self._path, b"".join(lines))
        except OSError as error:
            self._sound = False
            self._complain(self._path, error, len(lines))
            return
        if self._lost and not odd:
            log.warning("events are written to %s again; up to %d were lost", self._path, self._lost)
            self._lost = 0

    def _complain(self, path: Path, error: Exception, lost: int) -> None:
        """Once, until all can be written again."""
        if not self._lost:
            log.warning("events cannot be written to %s: %s", path, error)
        self._lost += lost

    def _append(self, path: Path, lines: bytes) -> None:
        if path.exists() and path.stat().st_size > MAX_BYTES:
            path.rename(path.with_suffix(".old"))
            self._sound = True
        with path.open("a+b") as file:
            if not self._sound and file.tell() and not _ends_with_a_line(file):
                lines = b"\n" + lines  # what a crash or a full disk cut off spoils nothing but itself
            file.write(lines)
        self._sound = True


def _ends_with_a_line(file: BinaryIO) -> bool:
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"
