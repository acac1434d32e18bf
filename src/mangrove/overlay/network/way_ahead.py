"""What is left of a way, as a frame that waits for its next hop sees it."""

from __future__ import annotations

from typing import NamedTuple


class WayAhead(NamedTuple):
    """What is left of a way: time on the line and inside the destination, and the wait at each hop.

    The first hop is the one that a frame waits for next.
    """

    travel_ms: float
    waits_ms: tuple[float, ...]

    @property
    def rest_ms(self) -> float:
        """How long the whole of it takes as things are."""
        return self.travel_ms + sum(self.waits_ms)

    @property
    def ahead_ms(self) -> float:
        """The same from the moment at which a frame leaves here."""
        return self.travel_ms + sum(self.waits_ms[1:])
