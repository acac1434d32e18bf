"""How much of each link is in use, and what is left of it for a contract.

A link is directed here: what its ends send is counted apart. Its capacity is the smaller of the configured
bandwidth and the rate that it was seen to take while more waited than it took; a link of which neither is
known has room for all, and weighs as if it were a common one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from mangrove.model.federation import Federation
from mangrove.model.site_pair import SitePair
from mangrove.overlay.network.link_state import LinkMeasurements

HEADROOM = 0.9
"""A link is full at this share of its capacity: bursts need the rest."""
COMMON_MBPS = 1000.0
_FULLEST = 0.95
"""Beyond this share more load makes no link look worse."""


class LinkLoads:
    """The load on all links without the contract for which a path is sought."""

    def __init__(self, capacity_mbps: Mapping[SitePair, float], load_mbps: Mapping[SitePair, float]) -> None:
        self._capacity = capacity_mbps
        self._load = load_mbps

    def free_mbps(self, path: Sequence[str]) -> float | None:
        """What the fullest link of a path can still take; None if the capacity of none is known."""
        known = [hop for hop in pairwise(path) if hop in self._capacity]
        return min(
            (max(0.0, HEADROOM * self._capacity[hop] - self._load.get(hop, 0.0)) for hop in known),
            default=None,
        )

    def stretch(self, hop: SitePair, rate_mbps: float) -> float:
        """How much longer a link seems with this rate on it: as a queue does, over the share left free."""
        load = self._load.get(hop, 0.0) + rate_mbps
        return 1.0 / (1.0 - min(load / self._capacity.get(hop, COMMON_MBPS), _FULLEST))


NO_LOADS = LinkLoads({}, {})


def capacities(federation: Federation, measured: LinkMeasurements) -> dict[SitePair, float]:
    """Capacity of every link, in both directions, of which anything is known."""
    found: dict[SitePair, float] = {}
    for link in federation.links:
        for hop in (link.between, link.between[::-1]):
            known = [link.bandwidth_mbps, measured.limit_mbps.get(hop)]
            values = [value for value in known if value]
            if values:
                found[hop] = min(values)
    return found


def add_load(load: dict[SitePair, float], paths: Iterable[Sequence[str]], rate_mbps: float) -> None:
    """Every path of a set carries everything; negative rates take load away."""
    if not rate_mbps:
        return
    for path in paths:
        for hop in pairwise(path):
            load[hop] = max(0.0, load.get(hop, 0.0) + rate_mbps)
