"""How agents decide: balancing, congestion and plans of a federation file."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from mangrove.config.document.fields import Share, Strict, checked_window
from mangrove.model.congestion.parameters import Congestion, Mode
from mangrove.model.plans.rules import PlanPolicy, PlanRules


class BalancingDocument(Strict):
    """How agents detect load and move it. The defaults are those of ePEER, where it has some."""

    enabled: bool = Field(default=True, description="Whether load is moved; it is watched in any case.")
    method: str = Field(
        default="drd", description="What is moved: `drd`, `drd-optimal`, `peer` or `peer-drd`."
    )
    distribution: str = Field(
        default="headroom",
        description="Where new topics go: `headroom` (or the nearest edge, in a `wan`), `round-robin`, "
        "`least-connections` or `random`.",
    )
    low: Share = Field(default=0.90, description="From this utilisation on a broker takes no more.")
    high: Share = Field(default=0.95, description="From this utilisation on a broker is overloaded.")
    ceiling: Share | None = Field(
        default=None,
        description="Up to where a broker is filled by moves; by default halfway from `low` to `high`.",
    )
    target: Share | None = Field(
        default=None, description="Down to where an overloaded broker is relieved; by default to `low`."
    )
    period_s: Annotated[float, Field(ge=0.2, le=60)] = Field(
        default=1.0, description="How often brokers are looked at."
    )
    window: Annotated[int, Field(ge=1, le=60)] = Field(
        default=2, description="Over how many looks utilisation is smoothed; the latest weigh more."
    )
    confirm_periods: Annotated[int, Field(ge=1, le=60)] = Field(
        default=1, description="How many looks in a row must find overload."
    )
    cooldown_s: Annotated[float, Field(ge=0, le=3600)] = Field(
        default=3.0, description="Rest of a broker after its load was moved."
    )
    migration_timeout_s: Annotated[float, Field(ge=1, le=600)] = Field(
        default=30.0, description="How long clients may take to move."
    )
    delay_ms: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description="A broker through which a probe takes so long is overloaded."
    )
    cpu_percent: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description="A broker that uses so much of a processor is overloaded; 100 is one core."
    )
    memory_mb: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description="A broker that uses so many million bytes of memory is overloaded."
    )
    pending_bytes: Annotated[int, Field(gt=0)] | None = Field(
        default=None, description="A broker where so many bytes wait, and rise for five looks, is overloaded."
    )
    imbalance: Share = Field(
        default=0.10, description="For `peer` and `peer-drd`: the difference of two edges that starts moves."
    )
    imbalance_stop: Share | None = Field(
        default=None,
        description="For `peer` and `peer-drd`: down to which difference; by default half of `imbalance`.",
    )
    publish_at_edges: bool = Field(
        default=False, description="Whether topics with subscribers at one edge alone are published there."
    )


class CongestionDocument(Strict):
    """Who speaks less when capacity is short. The defaults are those of ePEER, where it has some."""

    mode: Mode = Field(
        default=Mode.CONGESTED,
        description="When publishers are limited: while no broker has room left (`congested`), `always`, "
        "or never (`off`).",
    )
    selection: str = Field(
        default="greedy", description="What may be said is chosen by `greedy` or `knapsack`."
    )
    stop_at_first: bool = Field(
        default=False, description="Whether nothing is chosen after the first topic that does not fit."
    )
    regions: Annotated[list[Share], Field(min_length=1, max_length=32)] = Field(
        default=list(Congestion().regions), description="Where the ranges of a publisher's utility end."
    )
    ladder: Annotated[list[Annotated[float, Field(ge=0, le=1)]], Field(min_length=2, max_length=33)] = Field(
        default=list(Congestion().ladder),
        description="What publishers in each range may say: parts of a publisher's share of its broker.",
    )
    probe_msg_s: Annotated[float, Field(gt=0, le=1000)] = Field(
        default=1.0, description="What a stopped publisher may still say, so that it can be judged anew."
    )
    lift_after_s: Annotated[float, Field(ge=0, le=3600)] = Field(
        default=5.0, description="For how long there must be room before limits are raised."
    )
    hysteresis: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=0.05, description="How much more important a topic must be to overtake another."
    )
    protect_deadline_ms: Annotated[float, Field(ge=0)] | None = Field(
        default=1000.0,
        description="Topics with a deadline of at most this are never limited; `null`: only `protected`.",
    )
    max_weight: Annotated[float, Field(ge=1, le=1e6)] = Field(
        default=10.0, description="How many times another's one subscriber's opinion may count."
    )
    disconnect_plain_publishers: bool = Field(
        default=False,
        description="Whether clients without the SDK that exceed `limits.client` are disconnected.",
    )


class PlansDocument(Strict):
    """How plans that the pipelines made come into force."""

    policy: PlanPolicy = Field(
        default=PlanPolicy.MANUAL,
        description="What agents do with a plan that they find: nothing, tell of it, or put it in force.",
    )
    directory: str | None = Field(
        default=None, description="Where the pipelines leave plans, relative to this file."
    )
    window: Annotated[list[Annotated[str, AfterValidator(checked_window)]], Field(max_length=16)] = Field(
        default=[],
        description="Times of day at which plans are applied, in UTC, as `22:00-05:30`; by default at once.",
    )
    moves_at_once: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=PlanRules().moves_at_once, description="Topics that move at the same time."
    )
    max_age_h: Annotated[float, Field(gt=0, le=8760)] = Field(
        default=PlanRules().max_age_s / 3600, description="A plan whose data are older is refused."
    )
