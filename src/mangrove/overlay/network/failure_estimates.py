"""How probable it is that a link or a site is down: what was known before, and what is seen.

Each estimate is a mean of two shares of time, the prior one and the observed one, weighted by how much time
stands behind each (the mean of a Beta distribution whose counts are seconds). What the federation file states
weighs a month, a mere default a day; observation fades with a memory of a month. When all links of a site are
down at once, the site is held to be down, and its links are not observed meanwhile. The availability that
gateways advertise of their own links counts as one more hour of observation: it tells a gateway that has just
started of what happened before, and lets the last hour weigh more than older ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec
import numpy as np

from mangrove.model.federation import Federation
from mangrove.model.site_pair import SitePair, site_pair
from mangrove.overlay.links import availability
from mangrove.routing.network.graph import Graph

DEFAULT_LINK_FAILURE = 0.001
DEFAULT_SITE_FAILURE = 0.0005
"""Where nothing is known: about nine and about four hours a year."""
STATED_WEIGHT_S = 30 * 86400.0
DEFAULT_WEIGHT_S = 86400.0
MEMORY_S = 30 * 86400.0


class _Component(msgspec.Struct):
    """A link or a site: its prior, and the fading time in which it was observed, and down."""

    prior: float
    weight_s: float
    observed_s: float = 0.0
    down_s: float = 0.0
    state: bool | None = None
    """Up, down, or None while it cannot be told."""
    since: float = 0.0

    def change(self, state: bool | None, now: float) -> None:
        """Time before it was first seen up does not count: it may not have been built yet."""
        unseen = self.state is None and self.observed_s == 0
        if state is self.state or (unseen and state is False):
            return
        self.observed_s, self.down_s = self._as_of(now)
        self.state, self.since = state, now

    def _as_of(self, now: float) -> tuple[float, float]:
        if self.state is None:
            return self.observed_s, self.down_s
        left = math.exp(-max(0.0, now - self.since) / MEMORY_S)
        fresh = MEMORY_S * (1.0 - left)
        return self.observed_s * left + fresh, self.down_s * left + (0.0 if self.state else fresh)

    def estimate(self, now: float, told: float | None = None) -> float:
        observed, down = self._as_of(now)
        if told is not None:
            observed += availability.MEMORY_S
            down += availability.MEMORY_S * (1.0 - told)
        return (self.weight_s * self.prior + down) / (self.weight_s + observed)


class FailureEstimates:
    """What one gateway holds the probabilities of failure in the whole network to be."""

    def __init__(self, federation: Federation) -> None:
        self._links = {
            link.pair: _component(link.failure_probability, DEFAULT_LINK_FAILURE) for link in federation.links
        }
        self._sites = {
            name: _component(domain.failure_probability, DEFAULT_SITE_FAILURE)
            for name, domain in federation.domains.items()
        }
        self._links_at = {name: [link.pair for link in federation.links_of(name)] for name in self._sites}
        self._failed: frozenset[SitePair] | None = None
        self._told: Mapping[SitePair, float] = {}

    def adopt(self, federation: Federation) -> None:
        """Other domains and links are agreed on; what was learnt of those that stay is kept."""
        fresh = FailureEstimates(federation)
        self._links = {**fresh._links, **self._links}
        self._sites = {**fresh._sites, **self._sites}
        self._links_at = fresh._links_at
        self._failed = None

    def observe(self, failed: frozenset[SitePair], told: Mapping[SitePair, float], now: float) -> None:
        """From now on these links are down; `told` is the availability that their ends advertise."""
        self._told = told
        if failed == self._failed:
            return
        self._failed = failed
        down = {name for name, links in self._links_at.items() if len(links) > 1 and failed.issuperset(links)}
        for name, site in self._sites.items():
            site.change(name not in down, now)
        for pair, link in self._links.items():
            link.change(None if set(pair) & down else pair not in failed, now)

    def link(self, first: str, second: str, now: float) -> float:
        """Probability that a link is down, apart from its sites."""
        pair = site_pair(first, second)
        known = self._links.get(pair)
        return DEFAULT_LINK_FAILURE if known is None else known.estimate(now, self._told.get(pair))

    def site(self, name: str, now: float) -> float:
        """Probability that a site is down."""
        known = self._sites.get(name)
        return DEFAULT_SITE_FAILURE if known is None else known.estimate(now)

    def on(self, graph: Graph, now: float) -> Graph:
        """A graph of the federation with these probabilities."""
        names = graph.names
        return graph.with_values(
            node_failure=np.array([self.site(name, now) for name in names]),
            edge_failure=np.array([self.link(names[u], names[v], now) for u, v in graph.pairs]),
        )


def _component(stated: float | None, default: float) -> _Component:
    if stated is None:
        return _Component(default, DEFAULT_WEIGHT_S)
    return _Component(stated, STATED_WEIGHT_S)
