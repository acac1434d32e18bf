"""How far domains are from each other: by links and by milliseconds, as the federation file has them."""

from __future__ import annotations

import heapq
import math

from mangrove.model.federation import Federation

UNREACHABLE = (math.inf, math.inf)


class Distances:
    """Along the ways of least delay; of several, the one over fewest links.

    Links that have failed are not left out: a client is placed for longer than most failures last.
    """

    def __init__(self, federation: Federation) -> None:
        self._federation = federation
        self._from: dict[str, dict[str, tuple[float, float]]] = {}

    def links(self, source: str, destination: str) -> float:
        """How many links a message crosses; infinite if no way leads there."""
        return self._of(source).get(destination, UNREACHABLE)[1]

    def delay_ms(self, source: str, destination: str) -> float:
        """How long a message is on its way; infinite if no way leads there."""
        return self._of(source).get(destination, UNREACHABLE)[0]

    def _of(self, source: str) -> dict[str, tuple[float, float]]:
        known = self._from.get(source)
        if known is None:
            known = self._from[source] = self._search(source)
        return known

    def _search(self, source: str) -> dict[str, tuple[float, float]]:
        found: dict[str, tuple[float, float]] = {}
        at_hand: list[tuple[float, float, str]] = [(0.0, 0, source)]
        while at_hand:
            delay_ms, links, here = heapq.heappop(at_hand)
            if here in found:
                continue
            found[here] = delay_ms, links
            for link in self._federation.links_of(here):
                there = link.other(here)
                if there not in found:
                    weight = self._federation.link_weight(link)
                    heapq.heappush(at_hand, (delay_ms + weight, links + 1, there))
        return found
