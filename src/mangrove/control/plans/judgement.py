"""What putting a plan in force would do: which topics move, and what it does to the risk of overload."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from mangrove.control.plans.in_force import PlanInForce
from mangrove.model.plans.account import MAX_TOLD_MOVES, BrokerRisk, PlanPreview, TopicMove
from mangrove.model.plans.plan import Placing, Plan

WORSE_LOG = 1e-6
"""Plans whose chances differ by less in the logarithm are equally good: figures travel as 32-bit floats."""


class TopicNow(NamedTuple):
    """A topic as it is served at this moment."""

    topic: str
    movable: Mapping[str, int]
    """Subscriptions that could be told to move, by broker of this domain."""
    staying: Mapping[str, int]
    """The others."""
    mirror: str


Topics = Callable[[], Iterable[TopicNow]]


def digest_of(body: bytes) -> str:
    """A short name for a plan's document."""
    return hashlib.blake2b(body, digest_size=5).hexdigest()


def moves_to(plan: PlanInForce, topics: Iterable[TopicNow], down: frozenset[str]) -> Iterator[TopicMove]:
    """What is not where the plan wants it, and can be moved there."""
    for each in topics:
        placing = plan.planned(each.topic, down)
        if placing is None:
            continue
        elsewhere = {broker: count for broker, count in each.movable.items() if broker != placing.primary}
        mirror = placing.mirror if _mirrored(plan, each.topic) else each.mirror
        if not elsewhere and mirror in ("", each.mirror):
            continue
        yield TopicMove(
            topic=each.topic,
            sources=tuple(sorted(elsewhere)),
            to=placing.primary,
            subscriptions=sum(elsewhere.values()),
            staying=sum(count for broker, count in each.staying.items() if broker != placing.primary),
            mirror_before=each.mirror,
            mirror=mirror,
        )


def _mirrored(plan: PlanInForce, topic: str) -> bool:
    return any(item in plan.mirrored_items for item in plan.items_of(topic))


def preview(
    plan: PlanInForce, before: PlanInForce | None, topics: Iterable[TopicNow], down: frozenset[str]
) -> PlanPreview:
    """What would happen if a plan were put in force now, in the place of `before`."""
    served = list(topics)
    moves = sorted(moves_to(plan, served, down), key=lambda move: (-move.subscriptions, move.topic))
    normal = plan.plan.normal.placing
    new = {item: placing.primary for item, placing in normal.items()}
    old = _present(plan.plan, new, before, plan, served)
    after_ok, after_risk = plan.plan.normal.joint_ok, plan.plan.normal.risk
    before_ok: float | None = None
    before_risk: Mapping[str, float] = {}
    same, worse = False, False
    figures = plan.plan.figures
    if figures is not None:
        from mangrove.control.plans.figures import judged  # numerics are for this rare moment alone

        twice = {item.item for item in plan.plan.items if item.both}
        then = {item: placing.mirror for item, placing in normal.items() if item in twice}
        now = _present_mirrors(then, before, plan, served)
        was, will = judged(figures, old, now), judged(figures, new, then)
        if was is not None and will is not None:
            same = True
            before_ok, after_ok = was.joint_ok, will.joint_ok
            before_risk = {name: load.risk for name, load in zip(figures.brokers, was.loads, strict=True)}
            after_risk = {name: load.risk for name, load in zip(figures.brokers, will.loads, strict=True)}
            worse = will.log_joint_ok < was.log_joint_ok - WORSE_LOG * max(1.0, abs(was.log_joint_ok))
    if not same and before is not None:
        before_ok, before_risk = before.plan.normal.joint_ok, before.plan.normal.risk
        worse = after_ok < before_ok - WORSE_LOG
    brokers = sorted({*new.values(), *old.values(), *after_risk, *before_risk})
    seen = {item for each in served for item in plan.items_of(each.topic)}
    return PlanPreview(
        digest=plan.decision.digest,
        items=len(plan.plan.items),
        topics=sum(len(item.topics) for item in plan.plan.items),
        cases=len(plan.plan.cases),
        made_at=plan.plan.made_at,
        data_until=plan.plan.data_until,
        source=plan.plan.source,
        moves=tuple(moves[:MAX_TOLD_MOVES]),
        more_moves=max(0, len(moves) - MAX_TOLD_MOVES),
        subscriptions=sum(move.subscriptions for move in moves),
        mirrors=sum(move.mirror != move.mirror_before for move in moves),
        unseen=sum(len(item.topics) for item in plan.plan.items if item.item not in seen),
        brokers=tuple(
            BrokerRisk(
                broker=broker,
                before=before_risk.get(broker),
                after=after_risk.get(broker),
                items_before=sum(place == broker for place in old.values()),
                items_after=sum(place == broker for place in new.values()),
            )
            for broker in brokers
        ),
        joint_before=before_ok,
        joint_after=after_ok,
        same_figures=same,
        worse=worse,
    )


def _present(
    plan: Plan,
    new: Mapping[str, str],
    before: PlanInForce | None,
    index: PlanInForce,
    served: Iterable[TopicNow],
) -> dict[str, str]:
    """Where each item of a plan is now: by the plan in force, else by where most of it is served.

    What nobody serves is taken to be where the new plan has it, so that it speaks for neither.
    """
    found: dict[str, str] = {}
    if before is not None:
        for item in plan.items:
            placings = [before.planned(topic) for topic in item.topics]
            known = {placing.primary for placing in placings if isinstance(placing, Placing)}
            if len(known) == 1:
                found[item.item] = known.pop()
    counts: dict[str, dict[str, int]] = {}
    for each in served:
        for name in index.items_of(each.topic):
            at = counts.setdefault(name, {})
            for where in (each.movable, each.staying):
                for broker, count in where.items():
                    at[broker] = at.get(broker, 0) + count
    for name, at in counts.items():
        if at:
            found.setdefault(name, max(at, key=lambda broker: (at[broker], broker)))
    return {item: found.get(item, broker) for item, broker in new.items()}


def _present_mirrors(
    then: Mapping[str, str], before: PlanInForce | None, index: PlanInForce, served: Iterable[TopicNow]
) -> dict[str, str]:
    """Where items are mirrored now that are always sent twice; what nobody serves speaks for neither plan."""
    found: dict[str, str] = {}
    for each in served:
        for item in index.items_of(each.topic):
            if item in then and each.mirror:
                found.setdefault(item, each.mirror)
    if before is not None:
        for item in then:
            planned = [before.planned(topic) for topic in index.topics_of(item)]
            mirrors = {placing.mirror for placing in planned if placing is not None and placing.mirror}
            if len(mirrors) == 1:
                found[item] = mirrors.pop()
    return {item: found.get(item, mirror) for item, mirror in then.items()}
