"""Where the recorder's rows go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from mangrove.model.telemetry import Table

Row = Mapping[str, object]


class Sink(Protocol):
    """Takes rows; the lake's writer is one, and so is a list in tests, which then need no Arrow."""

    def add(self, table: Table, rows: Sequence[Row]) -> None:
        """Keep rows."""

    def take_refused(self) -> int:
        """How many rows could not be kept since the last call."""

    def flush(self) -> object:
        """Write what is kept; may block, and is called in a thread."""

    def close(self, merge_until: float | None = None) -> None:
        """Write what is left, and do nothing that can wait after that moment of the monotonic clock."""
