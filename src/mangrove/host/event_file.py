"""The event log of a gateway or an agent on disk: a JSON document a line, to tell a story afterwards."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mangrove.model.events.event_log import Event, document, event_number

if TYPE_CHECKING:
    from mangrove.host.tracing.decisions import DecisionSpans
    from mangrove.host.tracing.tracer import Tracer

MAX_BYTES = 16 << 20


class EventFile:
    """Appends events; when the file is full it becomes `.old` and a new one begins."""

    def __init__(self, path: Path | None, tracer: Tracer | None = None) -> None:
        """With a `tracer`, events are spans as well."""
        self._path = path
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
        """Write events down."""
        if events and self._spans is not None:
            self._spans.tell(events)
        if not events or self._path is None:
            return
        lines = b"".join(
            msgspec.json.encode(document(event, self._clock_shift_s)) + b"\n" for event in events
        )
        if self._path.exists() and self._path.stat().st_size > MAX_BYTES:
            self._path.rename(self._path.with_suffix(".old"))
        with self._path.open("ab") as file:
            file.write(lines)
