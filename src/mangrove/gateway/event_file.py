"""The event log of a gateway on disk: one JSON document a line, so that a story can be told afterwards."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from mangrove.overlay.events import Event

MAX_BYTES = 16 << 20


class EventFile:
    """Appends events; when the file is full it becomes `.old` and a new one begins."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        # Events carry the event loop's time; on disk they carry the time of day.
        self._clock_shift_s = time.time() - time.monotonic()
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)

    def write(self, events: list[Event]) -> None:
        """Write events down."""
        if not events or self._path is None:
            return
        lines = b"".join(
            msgspec.json.encode(msgspec.structs.replace(event, at=event.at + self._clock_shift_s)) + b"\n"
            for event in events
        )
        if self._path.exists() and self._path.stat().st_size > MAX_BYTES:
            self._path.rename(self._path.with_suffix(".old"))
        with self._path.open("ab") as file:
            file.write(lines)
