"""Latency budgets: how a broker orders the topics that it forwards (Harmony §3.3, equations 1 to 3).

The end-to-end margin of a topic is what its deadline leaves over the measured delay of its route (eq. 1).
It is split equally among the hops (eq. 2). A broker sorts its topics by per-hop margin, the tightest first,
and gives the n-th one the budget `base + n * step` (eq. 3).

Equation 3 writes the base as the minimum of T_i, but T_i is a *topic* in the equations before it, and a
budget is a time. It is read here as the smallest per-hop margin among the broker's topics: the tightest
topic then gets little more than the time that it can really spend at this hop, and the others follow in
steps. A topic that is already late has a negative margin; the base is then zero, so that a budget is never
negative.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mangrove.errors import InputError


@dataclass(frozen=True, slots=True)
class TopicRoute:
    """A topic at a broker: its deadline, and the measured delay of every hop of its route."""

    topic: str
    deadline_ms: float
    hop_delays_ms: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.hop_delays_ms:
            raise InputError(f"the route of topic {self.topic!r} has no hops")

    @property
    def margin_ms(self) -> float:
        """End-to-end margin (eq. 1); negative when the route is too slow for the deadline."""
        return self.deadline_ms - sum(self.hop_delays_ms)

    @property
    def hop_margin_ms(self) -> float:
        """Margin at each hop (eq. 2)."""
        return self.margin_ms / len(self.hop_delays_ms)


@dataclass(frozen=True, slots=True)
class Budget:
    """The place of a topic in a broker's order of sending."""

    topic: str
    order: int  # 1 is the most urgent
    budget_ms: float
    hop_margin_ms: float

    @property
    def late(self) -> bool:
        """Whether the measured delays exceed the deadline already: the route has to change."""
        return self.hop_margin_ms < 0


def allocate_budgets(routes: Iterable[TopicRoute], step_ms: float = 1.0) -> list[Budget]:
    """Budgets of all topics at one broker, most urgent first; equal margins in order of name."""
    if not step_ms > 0:
        raise InputError(f"the step between budgets must be positive, not {step_ms}")
    ordered: Sequence[TopicRoute] = sorted(routes, key=lambda route: (route.hop_margin_ms, route.topic))
    base = max(ordered[0].hop_margin_ms, 0.0) if ordered else 0.0
    return [
        Budget(route.topic, order, base + order * step_ms, route.hop_margin_ms)
        for order, route in enumerate(ordered, start=1)
    ]
