"""Plans: what is in force in each domain, how risky that is, and what a proposed plan would change."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mangrove.model.plans.account import PlansTold, RolloutState, RolloutTold
from mangrove.monitor.view.wording import Grade, sentence

MAX_ITEMS = 60
MAX_HISTORY = 20
NOTABLE_RISK = 0.01
GRAVE_RISK = 0.1


class RiskRow(msgspec.Struct, frozen=True, kw_only=True):
    """A broker under the plan in force."""

    broker: str
    items: int
    topics: int
    mirrors: int
    risk: float | None
    grade: Grade


class ProposedRow(msgspec.Struct, frozen=True, kw_only=True):
    """A plan that was found; risks are those that any broker is overloaded."""

    name: str
    found_at: float
    moves: int
    risk_before: float | None
    risk_after: float | None
    problem: str


class HistoryRow(msgspec.Struct, frozen=True, kw_only=True):
    """A plan that was, or is, in force."""

    version: int
    since: float
    what: str
    by: str
    items: int
    risk: float
    outcome: str
    in_force: bool


class DomainPlans(msgspec.Struct, frozen=True, kw_only=True):
    """All plans of a domain."""

    domain: str
    policy: str
    version: int
    headline: str
    rollout: str
    progress: float | None
    """From 0 to 1 while topics move."""
    risks: tuple[RiskRow, ...] = ()
    items: tuple[tuple[str, int, str, str], ...] = ()
    """Item, topics, broker and mirror."""
    more_items: int = 0
    proposed: tuple[ProposedRow, ...] = ()
    history: tuple[HistoryRow, ...] = ()
    problem: str = ""


class PlansView(msgspec.Struct, frozen=True, kw_only=True):
    """The page."""

    domains: tuple[DomainPlans, ...]


def plans(told: Mapping[str, PlansTold | None]) -> PlansView:
    """What each domain's leader answered; None: nobody did."""
    return PlansView(domains=tuple(_domain(name, each) for name, each in told.items()))


def _domain(name: str, told: PlansTold | None) -> DomainPlans:
    if told is None:
        return DomainPlans(
            domain=name,
            policy="",
            version=0,
            headline="no agent that leads answers",
            rollout="",
            progress=None,
            problem="no agent that leads answers",
        )
    plan = told.plan
    headline = (
        "no plan is in force: topics go where there is room"
        if plan is None
        else f"version {plan.version}: {plan.what} by {plan.by}; {plan.items} items, {plan.cases} cases"
    )
    rollout = told.rollout
    moving = rollout is not None and rollout.state is not RolloutState.DONE
    return DomainPlans(
        domain=name,
        policy=told.policy + (", paused" if told.paused else ""),
        version=told.version,
        headline=sentence(headline, 200),
        rollout="" if rollout is None else sentence(_progress(rollout), 200),
        progress=rollout.done / max(1, rollout.topics) if rollout is not None and moving else None,
        risks=_risks(told),
        items=tuple(
            (sentence(each.item, 80), each.topics, each.placing.primary, each.placing.mirror or "")
            for each in told.items[:MAX_ITEMS]
        ),
        more_items=max(0, len(told.items) - MAX_ITEMS) + told.more_items,
        proposed=tuple(
            ProposedRow(
                name=sentence(each.name, 120),
                found_at=each.found_at,
                moves=each.moves,
                risk_before=None if each.joint_before is None else 1 - each.joint_before,
                risk_after=None if each.joint_after is None else 1 - each.joint_after,
                problem=sentence(each.problem),
            )
            for each in told.proposed
        ),
        history=tuple(
            HistoryRow(
                version=each.version,
                since=each.since,
                what=sentence(each.what, 60),
                by=sentence(each.by, 60),
                items=each.items,
                risk=1 - each.joint_ok,
                outcome=sentence(each.outcome, 160),
                in_force=each.version == told.version,
            )
            for each in told.history[:MAX_HISTORY]
        ),
    )


def _risks(told: PlansTold) -> tuple[RiskRow, ...]:
    primaries: dict[str, list[int]] = {}
    mirrors: dict[str, int] = {}
    for each in told.items:
        primaries.setdefault(each.placing.primary, []).append(each.topics)
        if each.placing.mirror:
            mirrors[each.placing.mirror] = mirrors.get(each.placing.mirror, 0) + 1
    rows = []
    for broker in sorted({*primaries, *mirrors, *told.risk}):
        risk = told.risk.get(broker)
        grave = risk is not None and risk > GRAVE_RISK
        notable = risk is not None and risk > NOTABLE_RISK
        rows.append(
            RiskRow(
                broker=broker,
                items=len(primaries.get(broker, ())),
                topics=sum(primaries.get(broker, ())),
                mirrors=mirrors.get(broker, 0),
                risk=risk,
                grade=Grade.BAD if grave else Grade.DOUBT if notable else Grade.GOOD,
            )
        )
    return tuple(rows)


def _progress(rollout: RolloutTold) -> str:
    if rollout.state is RolloutState.DONE:
        return f"rolled out: {rollout.done} topics moved with {rollout.subscriptions} subscriptions"
    why = f" ({rollout.waits})" if rollout.waits else ""
    return f"{rollout.state.value}{why}: {rollout.done} of {rollout.topics} topics"
