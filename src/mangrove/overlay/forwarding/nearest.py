"""Which of several domains serves a queue group: the nearest that can be reached."""

from __future__ import annotations

import math
from collections.abc import Iterator

from mangrove.overlay.network.live_map import LiveMap

CLEARLY_FARTHER = 1.5
CLEARLY_FARTHER_MS = 5.0
"""The choice stays until another domain is nearer by this factor and so much besides: delays vary."""
MAX_KEPT = 4096
_ANY_CLASS = -1
"""Distance without what frames of some contract wait for the links: all subjects choose alike."""


class NearestDomains:
    """Chooses by the live map; ties are settled by name. Domains are given as bits."""

    def __init__(self, live: LiveMap) -> None:
        self._live = live
        self._chosen: dict[int, int] = {}

    def of(self, candidates: int) -> int:
        """The one of some domains that serves; the nearest by name if none can be reached."""
        chosen = self._chosen.get(candidates)
        if chosen is None:
            if len(self._chosen) >= MAX_KEPT:
                self._chosen.clear()
            chosen = self._chosen[candidates] = self._best(candidates)
        return chosen

    def reachable(self, candidates: int) -> int:
        """The nearest of some domains that can be reached now; zero if none can."""
        best = self._best(candidates) if candidates else 0
        return best if best and math.isfinite(self._distance(best)) else 0

    def network_changed(self) -> bool:
        """Choose again where the chosen domain cannot be reached or is clearly farther; whether any was."""
        changed = False
        for candidates, chosen in self._chosen.items():
            best = self._best(candidates)
            limit = CLEARLY_FARTHER * self._distance(best) + CLEARLY_FARTHER_MS
            if best != chosen and self._distance(chosen) > limit:
                self._chosen[candidates] = best
                changed = True
        return changed

    def problems(self) -> list[str]:
        """Invariants that do not hold."""
        return [
            f"{chosen:#x} serves for {candidates:#x}"
            for candidates, chosen in self._chosen.items()
            if not chosen & candidates or chosen & (chosen - 1)
        ]

    def _best(self, candidates: int) -> int:
        names = self._live.names
        return min(_bits(candidates), key=lambda bit: (self._distance(bit), names[bit.bit_length() - 1]))

    def _distance(self, bit: int) -> float:
        return self._live.rest_ms(bit, _ANY_CLASS)


def _bits(mask: int) -> Iterator[int]:
    while mask:
        bit = mask & -mask
        mask &= ~bit
        yield bit
