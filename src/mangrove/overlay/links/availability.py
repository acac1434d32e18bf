"""What share of time a link could be used, the recent past counting most."""

from __future__ import annotations

import math

MEMORY_S = 3600.0


class Availability:
    """An exponentially weighted share of time; one until the first failure."""

    def __init__(self) -> None:
        self._share = 1.0
        self._up: bool | None = None
        self._since = 0.0

    def change(self, up: bool, now: float) -> None:
        """The link can be used from now on, or cannot. Time before its first use does not count."""
        if self._up is None and not up:
            return
        self._share = self.share(now)
        self._up, self._since = up, now

    def share(self, now: float) -> float:
        """The share as of now."""
        if self._up is None:
            return 1.0
        weight = -math.expm1(-max(0.0, now - self._since) / MEMORY_S)
        return self._share + weight * (float(self._up) - self._share)
