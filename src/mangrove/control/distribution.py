"""Where a new subscription is served (ePEER §4.4.2): one rule for known topics, policies for new ones."""

from __future__ import annotations

import hashlib
import math
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from mangrove.control.load.cluster import ranking_headroom
from mangrove.model.agents.load import Amounts, BrokerLoad, ClusterLoad, LoadState, Metric
from mangrove.model.balancing import Balancing, Placement

MIN_SHARE = 0.01
"""What a topic of which nothing is known yet is taken to use of an edge."""


class Candidate(msgspec.Struct, frozen=True):
    """A broker that could serve a subscription."""

    load: BrokerLoad
    topics: int = 0
    """That it serves already."""

    @property
    def name(self) -> str:
        """The broker's name."""
        return self.load.broker


class Newcomer(msgspec.Struct, frozen=True):
    """A subscription that has no broker yet."""

    topic: str
    serving: tuple[str, ...] = ()
    """Brokers that serve the topic already."""
    target: str = ""
    """Where a session moves the topic, if one does."""
    rtt_ms: Mapping[str, float] = msgspec.field(default_factory=dict)
    """The client's measured round trips, by broker."""
    expected: Amounts = msgspec.field(default_factory=Amounts)
    """Its declared load, if any."""
    neighbours: Mapping[str, ClusterLoad] = msgspec.field(default_factory=dict)
    """Linked domains that would take the client."""


class Place(msgspec.Struct, frozen=True):
    """Where it goes, and why, for people. Nobody is refused."""

    broker: str
    why: str
    crowded: bool = False
    """No edge had room for it: an event must say so."""
    neighbour: str = ""
    """A domain that has, if one does."""


class Policy(Protocol):
    """Chooses among candidates for a topic that nobody serves yet; there is always one at least."""

    def choose(
        self, newcomer: Newcomer, candidates: Sequence[Candidate], headroom: Mapping[str, float]
    ) -> tuple[Candidate, str]:
        """The broker, and why it."""


class Headroom:
    """The emptiest (least capacity utilisation); in a WAN, the nearest whose round trip was measured."""

    def __init__(self, placement: Placement, seed: int) -> None:
        self._placement = placement

    def choose(
        self, newcomer: Newcomer, candidates: Sequence[Candidate], headroom: Mapping[str, float]
    ) -> tuple[Candidate, str]:
        """By headroom, then fewest topics, then name; by round trip first where that counts and is known."""
        emptiest = min(candidates, key=lambda each: _emptiness(each, headroom))
        if self._placement is Placement.WAN:
            near = [each for each in candidates if _measured(newcomer.rtt_ms.get(each.name))]
            if near:
                nearest = min(near, key=lambda each: (newcomer.rtt_ms[each.name], _emptiness(each, headroom)))
                return nearest, f"nearest, {newcomer.rtt_ms[nearest.name]:.3g} ms away"
            return emptiest, f"{_headroom_text(emptiest)}; no round trip was measured"
        return emptiest, _headroom_text(emptiest)


class RoundRobin:
    """One after the other, by name."""

    def __init__(self, placement: Placement, seed: int) -> None:
        self._last = ""

    def choose(
        self, newcomer: Newcomer, candidates: Sequence[Candidate], headroom: Mapping[str, float]
    ) -> tuple[Candidate, str]:
        """The next name after the last one chosen."""
        ordered = sorted(candidates, key=lambda each: each.name)
        chosen = next((each for each in ordered if each.name > self._last), ordered[0])
        self._last = chosen.name
        return chosen, "next in turn"


class LeastConnections:
    """The one with the fewest connections, as load balancers that know nothing of topics do."""

    def __init__(self, placement: Placement, seed: int) -> None:
        pass

    def choose(
        self, newcomer: Newcomer, candidates: Sequence[Candidate], headroom: Mapping[str, float]
    ) -> tuple[Candidate, str]:
        """By connections, then fewest topics, then name."""
        chosen = min(candidates, key=lambda each: (each.load.connections, each.topics, each.name))
        return chosen, f"fewest connections ({chosen.load.connections})"


class Random:
    """Any, with equal chances; the same seed makes the same choices."""

    def __init__(self, placement: Placement, seed: int) -> None:
        self._seed = seed
        self._drawn = 0

    def choose(
        self, newcomer: Newcomer, candidates: Sequence[Candidate], headroom: Mapping[str, float]
    ) -> tuple[Candidate, str]:
        """A hash of the seed and of how many were drawn before decides."""
        self._drawn += 1
        digest = hashlib.blake2b(f"{self._seed}/{self._drawn}".encode(), digest_size=8).digest()
        ordered = sorted(candidates, key=lambda each: each.name)
        return ordered[int.from_bytes(digest) % len(ordered)], "drawn at random"


POLICIES: dict[str, Callable[[Placement, int], Policy]] = {
    "headroom": Headroom,
    "round-robin": RoundRobin,
    "least-connections": LeastConnections,
    "random": Random,
}


class Distributor:
    """Places the new subscriptions of one domain.

    The same topic goes to the same edge, whatever the load: a second edge costs the head one more copy of
    every message, and topics are moved as a whole. What was placed lately is not in the measured load yet, so
    it is reckoned with the mean share of a topic: else all that comes in one period would go to one edge.
    """

    def __init__(self, balancing: Balancing, placement: Placement, seed: int = 0) -> None:
        self._policy = POLICIES[balancing.distribution](placement, seed)
        self._settle_s = (balancing.window + 1) * balancing.period_s
        self._recent: deque[tuple[float, str]] = deque()
        self._placed: Counter[str] = Counter()
        """How many of `_recent` went to each broker."""

    def assign(self, newcomer: Newcomer, candidates: Sequence[Candidate], now: float) -> Place:
        """Where a subscription goes; `candidates` are the domain's edges, or its head if it has none."""
        by_name = {each.name: each for each in candidates}
        known = self._known_topic(newcomer, by_name)
        if known is not None:
            return known
        headroom = self._expected_headroom(candidates, now)
        low = [each for each in candidates if each.load.state is LoadState.LOW and each.load.reachable]
        if low:
            chosen, why = self._policy.choose(newcomer, low, headroom)
            place = Place(chosen.name, why)
        else:
            place = _when_none_is_low(newcomer, candidates, headroom)
        self._recent.append((now, place.broker))
        self._placed[place.broker] += 1
        return place

    def _known_topic(self, newcomer: Newcomer, by_name: Mapping[str, Candidate]) -> Place | None:
        if newcomer.target in by_name and by_name[newcomer.target].load.reachable:
            return Place(newcomer.target, "the topic is on its way there")
        serving = [by_name[name] for name in newcomer.serving if name in by_name]
        reachable = [each for each in serving if each.load.reachable]
        if not reachable:
            return None
        emptiest = max(reachable, key=lambda each: (ranking_headroom(each.load), each.name))
        return Place(emptiest.name, "it serves the topic already")

    def _expected_headroom(self, candidates: Sequence[Candidate], now: float) -> dict[str, float]:
        """Headroom less what was placed since the load was measured."""
        while self._recent and not 0 <= now - self._recent[0][0] <= self._settle_s:
            self._placed[self._recent.popleft()[1]] -= 1
        used = sum(max(each.load.utilisation.values(), default=0.0) for each in candidates)
        topics = sum(each.topics for each in candidates if each.load.utilisation)
        share = max(MIN_SHARE, used / topics) if topics else MIN_SHARE
        return {
            each.name: ranking_headroom(each.load)
            - (self._placed[each.name] * share if each.load.utilisation else 0.0)
            for each in candidates
        }


def _when_none_is_low(
    newcomer: Newcomer, candidates: Sequence[Candidate], headroom: Mapping[str, float]
) -> Place:
    """A HIGH edge with room for it; else the least loaded one, with a neighbour named that is better off."""
    if not candidates:
        raise ValueError("a domain has its head at least")
    roomy = [each for each in candidates if _has_room(each.load, newcomer.expected)]
    if roomy:
        chosen = min(roomy, key=lambda each: _emptiness(each, headroom))
        return Place(chosen.name, f"no edge is LOW; it is HIGH, with {_headroom_text(chosen)}")
    answering = [each for each in candidates if each.load.reachable] or list(candidates)
    chosen = min(answering, key=lambda each: _emptiness(each, headroom))
    why = f"no edge has room; least loaded ({chosen.load.state}), with {_headroom_text(chosen)}"
    low = {name: load for name, load in newcomer.neighbours.items() if load.edges is LoadState.LOW}
    if not low:
        return Place(chosen.name, why, crowded=True)
    neighbour = min(low, key=lambda name: (-_cluster_headroom(low[name]), name))
    return Place(chosen.name, f"{why}; {neighbour} has room", crowded=True, neighbour=neighbour)


def _has_room(load: BrokerLoad, expected: Amounts) -> bool:
    fits = all(expected.of(metric) <= load.remaining.get(metric, math.inf) for metric in Metric)
    return load.state is LoadState.HIGH and load.reachable and fits


def _emptiness(candidate: Candidate, headroom: Mapping[str, float]) -> tuple[float, float, int, str]:
    """The key by which the emptiest comes first: by share, then by what is left, topics and name."""
    left = candidate.load.remaining.get(Metric.MATCHING, 0.0)
    return -headroom[candidate.name], -left, candidate.topics, candidate.name


def _cluster_headroom(load: ClusterLoad) -> float:
    return 1.0 if load.headroom is None else load.headroom


def _measured(rtt_ms: float | None) -> bool:
    return rtt_ms is not None and math.isfinite(rtt_ms) and rtt_ms >= 0


def _headroom_text(candidate: Candidate) -> str:
    if candidate.load.headroom is None:
        return "unknown headroom"
    return f"headroom {candidate.load.headroom:.0%}"
