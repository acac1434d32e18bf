"""How plans come into force: the federation file's `plans`."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class PlanPolicy(StrEnum):
    """What an agent does with a plan that it finds: nothing, tell of it, or put it in force."""

    MANUAL = "manual"
    PROPOSE = "propose"
    AUTO = "auto"


class PlanRules(msgspec.Struct, frozen=True, kw_only=True):
    """Where plans come from, when they are applied, and how many topics move at a time."""

    policy: PlanPolicy = PlanPolicy.MANUAL
    directory: str = ""
    """Where the pipelines leave plans; empty: nowhere."""
    window: tuple[str, ...] = ()
    """Times of day (UTC) at which plans are applied, as `22:00-05:30`; none: at once."""
    moves_at_once: int = 8
    """Topics that move at the same time."""
    max_age_s: float = 7 * 86_400.0
    """A plan whose data are older is refused."""
