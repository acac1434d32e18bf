"""What operators are told of plans: results of the plan operations, as JSON in `OperationAnswer.result`."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from mangrove.model.plans.plan import Placing

MAX_TOLD_MOVES = 2_000
MAX_TOLD_ITEMS = 2_000


class RolloutState(StrEnum):
    """How far a plan has got that was put in force."""

    PREPARING = "preparing"
    """It is written down; nothing moves before that."""
    WAITING = "waiting"
    """For its window, for a pause to end, or for clients to find a new leader."""
    MOVING = "moving"
    DONE = "done"


class TopicMove(msgspec.Struct, frozen=True, kw_only=True):
    """A topic whose subscribers are not where the plan wants them."""

    topic: str
    sources: tuple[str, ...]
    to: str
    subscriptions: int
    """That move."""
    staying: int = 0
    """That cannot be told to: queue groups, and those that asked not to be moved."""
    mirror_before: str = ""
    mirror: str = ""


class BrokerRisk(msgspec.Struct, frozen=True, kw_only=True):
    """One broker before and after; None where nothing is known."""

    broker: str
    before: float | None
    after: float | None
    items_before: int
    items_after: int


class PlanPreview(msgspec.Struct, frozen=True, kw_only=True):
    """What putting a plan in force would do, or does."""

    digest: str
    """Names the plan."""
    items: int
    topics: int
    cases: int
    made_at: float
    data_until: float
    source: str = ""
    moves: tuple[TopicMove, ...] = ()
    more_moves: int = 0
    subscriptions: int = 0
    """That move, in all."""
    mirrors: int = 0
    """Topics whose mirror changes."""
    unseen: int = 0
    """Topics of the plan that nobody here subscribes to: they are placed when somebody does."""
    brokers: tuple[BrokerRisk, ...] = ()
    joint_before: float | None = None
    joint_after: float = 1.0
    same_figures: bool = False
    """Whether before and after were judged by the plan's own figures, or told by each plan for itself."""
    worse: bool = False
    problem: str = ""
    """Why it would be refused."""


class PlanTaken(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `PlanApplied` and `PlanRolledBack`."""

    preview: PlanPreview
    version: int = 0
    """Under which it is in force; 0: only looked at."""
    waits: str = ""
    """Why it does not begin at once, if so."""


class RolloutTold(msgspec.Struct, frozen=True, kw_only=True):
    """How far a plan has got."""

    version: int
    state: RolloutState
    topics: int
    """That had to move, as far as is known."""
    done: int = 0
    moving: tuple[str, ...] = ()
    subscriptions: int = 0
    """That have moved."""
    failed: int = 0
    silent: int = 0
    skipped: dict[str, int] = {}
    """Topics that were left where they are, by reason."""
    waits: str = ""
    since: float = 0.0
    """Seconds since 1970."""


class PlanVersion(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the history."""

    version: int
    digest: str
    since: float
    by: str
    what: str
    """`applied`, `found` or `rolled back to N`."""
    items: int
    cases: int
    joint_ok: float
    source: str = ""
    outcome: str = ""


class ProposedPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A plan that was found and waits for an operator, or why it was refused."""

    name: str
    found_at: float
    digest: str = ""
    joint_before: float | None = None
    joint_after: float | None = None
    moves: int = 0
    problem: str = ""


class ItemTold(msgspec.Struct, frozen=True, kw_only=True):
    """Where an item of a plan is."""

    item: str
    topics: int
    placing: Placing


class PlansTold(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `PlanShown`."""

    domain: str
    policy: str
    """`manual`, `propose` or `auto`."""
    paused: bool = False
    version: int = 0
    """In force; 0: none."""
    plan: PlanVersion | None = None
    """That was asked for."""
    risk: dict[str, float] = {}
    items: tuple[ItemTold, ...] = ()
    more_items: int = 0
    rollout: RolloutTold | None = None
    committing: str = ""
    """Digest of a plan that waits until all agents hold it."""
    proposed: tuple[ProposedPlan, ...] = ()
    history: tuple[PlanVersion, ...] = ()
