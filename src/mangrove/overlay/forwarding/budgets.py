"""Latency budgets: how long a frame may wait at each hop of the way that is left (Harmony §3.3).

What a deadline leaves over the time on the line is all that queues may take. Each hop ahead gets what frames
of this topic class wait there as measured, and a share of the margin beyond that: an equal one (equation 2),
or one by load, which is the split that the paper leaves open. Where the margin is negative, the hops share
what there is in proportion to their waits. So the budgets of all hops always add up to the deadline less the
time on the line, and none is negative.
"""

from __future__ import annotations

from mangrove.overlay.network.way_ahead import WayAhead

MIN_WEIGHT_MS = 2.0
"""A hop where nothing waits still has a share of the margin: something may come."""


def hop_budgets_ms(left_ms: float, way: WayAhead, *, by_load: bool) -> tuple[float, ...]:
    """What each hop may take of the time that is left until the deadline."""
    available_ms = max(0.0, left_ms - way.travel_ms)
    waits_ms = way.waits_ms
    waited_ms = sum(waits_ms)
    margin_ms = available_ms - waited_ms
    if margin_ms < 0:
        return tuple(available_ms * wait / waited_ms for wait in waits_ms)
    weights = [MIN_WEIGHT_MS + wait for wait in waits_ms] if by_load else [1.0] * len(waits_ms)
    whole = sum(weights)
    return tuple(wait + margin_ms * weight / whole for wait, weight in zip(waits_ms, weights, strict=True))


def first_budget_ms(left_ms: float, way: WayAhead, *, by_load: bool) -> float:
    """The first of `hop_budgets_ms`: what a frame may wait here."""
    here_ms, waited_ms = way.waits_ms[0], sum(way.waits_ms)
    available_ms = max(0.0, left_ms - way.travel_ms)
    margin_ms = available_ms - waited_ms
    if margin_ms < 0:
        return available_ms * here_ms / waited_ms
    hops = len(way.waits_ms)
    if by_load:
        return here_ms + margin_ms * (MIN_WEIGHT_MS + here_ms) / (hops * MIN_WEIGHT_MS + waited_ms)
    return here_ms + margin_ms / hops


def overdue_ms(left_ms: float, way: WayAhead) -> float:
    """By how much a frame will be late even if it waits nowhere."""
    return max(0.0, way.travel_ms - left_ms)
