"""Links and sites that fail and are repaired, by their probabilities, over a long time.

Each goes up and down by itself: times up and times down are exponential, and their means are such that it is
down for its share of the time.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from mangrove.model.federation import Federation
from mangrove.model.site_pair import SitePair

YEAR_S = 365 * 86400.0


@dataclass(frozen=True, slots=True, order=True)
class Change:
    """A link (its two ends) or a site (one name) fails, or is repaired."""

    at: float
    where: tuple[str, ...]
    up: bool


def outages(federation: Federation, duration_s: float, repair_s: float, seed: int) -> list[Change]:
    """All changes of all links and sites in the order of time; everything is up at the beginning."""
    chance = random.Random(f"outages {seed}")
    probabilities: list[tuple[tuple[str, ...], float]] = [
        *((link.pair, link.failure_probability or 0.0) for link in federation.links),
        *(((name,), site.failure_probability or 0.0) for name, site in federation.domains.items()),
    ]
    found: list[Change] = []
    for where, probability in probabilities:
        if probability:
            found += _changes(where, probability, duration_s, repair_s, chance)
    return sorted(found)


def _changes(
    where: tuple[str, ...], probability: float, duration_s: float, repair_s: float, chance: random.Random
) -> Iterator[Change]:
    mean_up_s = repair_s * (1 - probability) / probability
    at, up = 0.0, True
    while True:
        at += chance.expovariate(1 / (mean_up_s if up else repair_s))
        if at >= duration_s:
            return
        up = not up
        yield Change(at, where, up)


@dataclass(slots=True)
class Damaged:
    """What is down now."""

    federation: Federation
    links: set[SitePair] = field(default_factory=set)
    sites: set[str] = field(default_factory=set)

    def apply(self, change: Change) -> None:
        """Something failed or was repaired."""
        if len(change.where) == 2:
            (self.links.discard if change.up else self.links.add)((change.where[0], change.where[1]))
        else:
            (self.sites.discard if change.up else self.sites.add)(change.where[0])

    @property
    def failed(self) -> frozenset[SitePair]:
        """The links that carry nothing: those that are down, and those of sites that are."""
        return frozenset(
            link.pair
            for link in self.federation.links
            if link.pair in self.links or self.sites.intersection(link.pair)
        )
