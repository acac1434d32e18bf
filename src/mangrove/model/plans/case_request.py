"""A state for which no case was prepared, with all that is needed to compute one."""

from __future__ import annotations

import msgspec

from mangrove.model.plans.figures import PlanFigures
from mangrove.model.plans.plan import Placing


class CaseRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Plain values, so that it can be handed to another thread."""

    plan: int
    """Version of the plan in force; 0: none is, and items are topics."""
    failed: tuple[str, ...]
    brokers: tuple[str, ...]
    """All that serve subscribers, the failed ones among them."""
    hosts: tuple[str, ...]
    """Of each broker."""
    before: dict[str, Placing] = {}
    """What was in force, by item."""
    figures: PlanFigures | None = None
    """What the plan was computed from; without it, what was measured:"""
    rates_msg_s: dict[str, float] = {}
    capacities_msg_s: tuple[float, ...] = ()
    """Of each broker."""
    mirrored: tuple[str, ...] = ()
    """Items whose messages are always at a second broker as well."""
