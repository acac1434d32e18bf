"""Rates from counters that only grow: what changed between two looks, whoever restarted meanwhile."""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from mangrove.model.site_pair import SitePair, site_pair
from mangrove.model.status import FederationStatus

MIN_SPAN_S = 0.8
"""Looks that are closer together are one: rates of an instant say nothing."""
FULL_WIDTH_BPS = 1e9
"""A link that carries so much is drawn as wide as can be."""
VISIBLE_BPS = 1e3


class LinkLoad(msgspec.Struct, frozen=True):
    """Bits in a second that each end of a link sends: the first of the pair, then the second."""

    first_bps: float = 0.0
    second_bps: float = 0.0

    @property
    def total_bps(self) -> float:
        """Both directions."""
        return self.first_bps + self.second_bps

    @property
    def width(self) -> float:
        """From 0 to 1, by orders of magnitude: a thousand times the load is not a thousand times as wide."""
        if self.total_bps <= VISIBLE_BPS:
            return 0.0
        return min(1.0, math.log(self.total_bps / VISIBLE_BPS) / math.log(FULL_WIDTH_BPS / VISIBLE_BPS))


class LoadMeter:
    """Remembers the last look at the links' counters."""

    def __init__(self) -> None:
        self._at = 0.0
        self._bytes: dict[tuple[str, str], int] = {}
        self.links: dict[SitePair, LinkLoad] = {}

    def look(self, status: FederationStatus, now: float) -> None:
        """Take note of what was counted until now."""
        span_s = now - self._at
        if 0 <= span_s < MIN_SPAN_S:
            return
        counted = {
            (domain.domain, link.peer): link.bytes_out
            for domain in status.domains
            if domain.gateway is not None
            for link in domain.gateway.links
        }
        # A clock that was set back says nothing of rates; the next look does.
        self.links = _loads(self._bytes, counted, span_s) if span_s > 0 else {}
        self._bytes, self._at = counted, now


def _loads(
    before: Mapping[tuple[str, str], int], after: Mapping[tuple[str, str], int], span_s: float
) -> dict[SitePair, LinkLoad]:
    found: dict[SitePair, LinkLoad] = {}
    for (source, peer), count in after.items():
        known = before.get((source, peer))
        if known is None or count < known:
            continue
        bps = 8 * (count - known) / span_s
        pair = site_pair(source, peer)
        other = found.get(pair, LinkLoad())
        found[pair] = LinkLoad(bps, other.second_bps) if source == pair[0] else LinkLoad(other.first_bps, bps)
    return found
