"""In which domain a new subscription is best served: at home, or where what it asks for is published.

What counts is what crosses links between domains, and how long it is on its way to the broker that serves the
subscription. Rates of other domains' topics are not known when a client registers, so every published topic
counts once. A client's own line to a broker is nobody's to know but the client's: it measures it, and goes
only if it is not farther than `slack_ms` allows (see `Verdict`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import msgspec

from mangrove.control.steering.distances import Distances
from mangrove.model.agents.load import ClusterLoad, LoadState

WORTH_SHARE = 0.1
"""A move must spare at least this part of what crosses links for the sake of a subscription."""
RESERVE = 0.2
"""Part of an edge's capacity below `high` that is left free by whoever is steered there: load grows later."""


class Cost(msgspec.Struct, frozen=True):
    """What a subscription costs if it is served in a domain."""

    crossings: float
    """Links that are crossed by one message of each topic."""
    mean_ms: float
    """On the way from publishers to the domain, over all topics."""
    worst_ms: float

    def no_worse_than(self, other: Cost) -> bool:
        """Whether it is at most as much in every respect."""
        return (
            self.crossings <= other.crossings
            and self.mean_ms <= other.mean_ms
            and self.worst_ms <= other.worst_ms
        )


class Verdict(msgspec.Struct, frozen=True):
    """Where a subscription is to be served, and why."""

    domain: str
    """Empty: at home."""
    home: Cost
    there: Cost
    """In `domain`; as at home if it stays."""
    why: str

    @property
    def slack_ms(self) -> float:
        """How much longer than at home a client's round trip to the domain may be.

        Half of what is gained between publisher and broker, there and back: a client that is where its home
        is would lose all of it on its own line, and stays.
        """
        return self.home.mean_ms - self.there.mean_ms


def cost_at(domain: str, sources: Mapping[str, int], distances: Distances) -> Cost:
    """What it costs to serve in a domain what these domains publish, each so many topics."""
    topics = sum(sources.values())
    delays = {source: distances.delay_ms(source, domain) for source in sources}
    return Cost(
        crossings=sum(count * distances.links(source, domain) for source, count in sources.items()),
        mean_ms=sum(count * delays[source] for source, count in sources.items()) / topics if topics else 0.0,
        worst_ms=max(delays.values(), default=0.0),
    )


def choose(
    home: str,
    sources: Mapping[str, int],
    neighbours: Mapping[str, ClusterLoad],
    distances: Distances,
    *,
    shared: bool = False,
) -> Verdict:
    """Choose among home and `neighbours`, which are linked and take this domain's clients.

    `shared`: others at home have the same and stay, so it comes home in any case. A neighbour is chosen only
    if it is LOW with more left than the reserve, if clearly fewer links are crossed for this subscription,
    and if neither the mean nor the longest way becomes longer.
    """
    # What no way leads here from comes here from nowhere, and to no neighbour either.
    sources = {name: count for name, count in sources.items() if math.isfinite(distances.links(name, home))}
    at_home = cost_at(home, sources, distances)
    stays = at_home if not shared else msgspec.structs.replace(at_home, crossings=0.0)
    if not sources:
        return Verdict("", stays, stays, "nobody is known to publish it")
    if not stays.crossings:
        why = "others here have it in any case" if shared and at_home.crossings else "it is published here"
        return Verdict("", stays, stays, why)
    costs = {name: cost_at(name, sources, distances) for name in neighbours}
    better = [
        name
        for name, cost in costs.items()
        if cost.no_worse_than(stays) and cost.crossings <= (1.0 - WORTH_SHARE) * stays.crossings
    ]
    if not better:
        why = "no linked domain that takes clients from here is nearer to those who publish it"
        return Verdict("", stays, stays, why)
    free = [name for name in better if has_reserve(neighbours[name])]
    if not free:
        return Verdict("", stays, stays, f"too little is left in {_listed(better, neighbours)}")
    best = min(free, key=lambda name: (*_in_order(costs[name]), -_headroom(neighbours[name]), name))
    there = costs[best]
    why = (
        f"its messages cross {there.crossings:g} links to there and {stays.crossings:g} to here, "
        f"in {there.mean_ms:.3g} and {stays.mean_ms:.3g} ms"
    )
    return Verdict(best, stays, there, why)


def has_reserve(load: ClusterLoad) -> bool:
    """Whether a domain's edges may be given more at all."""
    return load.edges is LoadState.LOW and _headroom(load) > RESERVE


def _headroom(load: ClusterLoad) -> float:
    return 1.0 if load.headroom is None else load.headroom


def _in_order(cost: Cost) -> tuple[float, float, float]:
    return cost.crossings, cost.mean_ms, cost.worst_ms


def _listed(names: Iterable[str], neighbours: Mapping[str, ClusterLoad]) -> str:
    return ", ".join(f"{name} ({neighbours[name].edges.value})" for name in sorted(names))
