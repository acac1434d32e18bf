"""What one end of a link sends, smoothed over a few seconds."""

from __future__ import annotations

import math

MEMORY_S = 2.0
MBIT_BYTES = 125_000.0


class Throughput:
    """Counts what leaves; the rate follows whenever stock is taken."""

    def __init__(self) -> None:
        self._taken_bytes = 0
        self._since: float | None = None
        self._mbps = 0.0

    def took(self, size_bytes: int) -> None:
        """Data left."""
        self._taken_bytes += size_bytes

    def settle(self, now: float) -> None:
        """Now and then: take stock."""
        if self._since is not None and now > self._since:
            elapsed = now - self._since
            fresh = self._taken_bytes / MBIT_BYTES / elapsed
            self._mbps += -math.expm1(-elapsed / MEMORY_S) * (fresh - self._mbps)
        self._since = now
        self._taken_bytes = 0

    @property
    def mbps(self) -> float:
        """Megabits per second."""
        return self._mbps
