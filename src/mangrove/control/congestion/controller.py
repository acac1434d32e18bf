"""Who may say how much while capacity is short: declared, limited, probed, lifted (ePEER chapter 5).

How to drive it, as the brain does, and an experiment may: give it `CongestionSurroundings`, call
`consider(now)` whenever loads were measured, and have publishers keep to the limits that it returns (None:
lifted). It plans once in a period, and at once when another broker is short.

Demand is what is said and what is withheld, so a plan does not depend on the limits in force; limits fall at
once and rise after `lift_after_s`, in steps. So under constant load they settle and stay.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from mangrove.control.congestion.budgets import Budgets
from mangrove.control.congestion.lifting import raised, used_under
from mangrove.control.congestion.planning import Key, Plan, Planned, Planner
from mangrove.control.congestion.problem import Select
from mangrove.control.congestion.shortage import ShortageWatch
from mangrove.control.congestion.states import Change, ControlState, next_state
from mangrove.control.congestion.surroundings import CongestionSurroundings, TopicOffer
from mangrove.control.events.congestion_happenings import (
    CongestionOver,
    LimitsRaised,
    ProtectedTooMuch,
    PublishersLimited,
)
from mangrove.model.agents.load import Amounts, BrokerLoad, LoadState, Metric
from mangrove.model.balancing import Balancing
from mangrove.model.congestion.parameters import Congestion, Mode
from mangrove.model.events.event_log import EventId, EventLog

STEPS = 4
"""Limits are raised in so many steps, one a period."""
SAME = 0.05
"""Limits that differ by less than this part are the same."""
MATERIAL = 0.05
"""A change of this part of all that may be said makes measured loads those of another time."""
MARGIN = 0.5
"""Of the gap between the thresholds: clients and brokers do not agree better than that on what is carried."""
NOTED_PART = 0.2
NOTED_S = 30.0
"""Limits that fall are an event if so many are new, or after so long: who is last changes all the time."""
EXAMPLES = 5
"""Topics that an event names."""
SETTLE_PERIODS = 5.0
"""A leader that takes over leaves limits as they are for so long: then clients have told what they say."""


class Limit(msgspec.Struct, frozen=True):
    """How much one publisher of a topic may say, and why not more."""

    msg_s: float
    since: float
    utility: float
    importance: float
    offered_msg_s: float
    brokers: tuple[str, ...]
    """For whose sake."""
    probing: bool = False


Changes = dict[Key, Limit | None]
"""Limits that are new or other than before; None: lifted."""


class CongestionControl:
    """The life of congestion in one domain."""

    def __init__(
        self,
        congestion: Congestion,
        balancing: Balancing,
        surroundings: CongestionSurroundings,
        log: EventLog,
        select: Select | None = None,
        paused: Callable[[], bool] = lambda: False,
    ) -> None:
        """`select` is the federation file's selection, unless an experiment has another.

        While `paused`, no broker becomes short.
        """
        self._paused = paused
        self._congestion = congestion
        self._balancing = balancing
        self._around = surroundings
        self._log = log
        self._planner = Planner(congestion, select)
        self._budgets = Budgets(balancing)
        self._watch = ShortageWatch(balancing)
        self.state = ControlState.CLEAR
        self.since = 0.0
        self.limits: dict[Key, Limit] = {}
        """All that are in force."""
        self.plan = Plan()
        """The last one."""
        self._short: dict[str, EventId | None] = {}
        self._eased_at: dict[str, float] = {}
        """Brokers for whose sake nobody need be limited any more, since when."""
        self._planned_at = -math.inf
        self._changed_at = -math.inf
        self._room_since: float | None = None
        self._steps_left = 0
        self._limited_by: EventId | None = None
        self._noted_at = -math.inf
        self._too_much: set[str] = set()
        self._hold_until = -math.inf

    # -- life -----------------------------------------------------------------------------------------------

    def resume(self, limits: Mapping[Key, Limit], brokers: Iterable[str], now: float) -> None:
        """Limits of an earlier leader stay in force, until clients had time to tell what they would say."""
        known = self._around.loads(now)
        self._short = {broker: None for broker in brokers if broker in known}
        if not limits or not self._short or self._congestion.mode is Mode.OFF:
            return
        self.limits = dict(limits)
        self._step(Change.SHORTAGE, now)
        self._hold_until = now + SETTLE_PERIODS * self._balancing.period_s
        self._changed_at = now

    def still_short(self, broker: str) -> bool:
        """Whether somebody is limited for a broker's sake, or may have to be."""
        return self.state is not ControlState.CLEAR and broker in self._short

    @property
    def short(self) -> tuple[str, ...]:
        """Brokers for whose sake publishers are limited."""
        return tuple(sorted(self._short))

    def capacity_changed(self, broker: str) -> None:
        """What a broker can carry has changed: the next plan does not wait for its period."""
        self._planned_at = -math.inf
        self._watch.changed(broker)

    def consider(self, now: float) -> Changes:
        """Loads were measured: what publishers may say from now on, where that is other than before."""
        if self._congestion.mode is Mode.OFF:
            return {}
        loads = self._around.loads(now)
        new = self._find_shortages(loads, now)
        if self.state is ControlState.CLEAR and not new:
            return {}
        if now < self._hold_until or (not new and now < self._planned_at + 0.9 * self._balancing.period_s):
            return {}
        self._planned_at = now
        if new:
            self._step(Change.SHORTAGE, now)
        offers = self._around.offers(now)
        self._budgets.look(loads, offers, now, self._changed_at)
        self.plan = self._planner.plan(offers, self._limits_of_brokers(loads))
        self._note_protected(now)
        changes = self._follow(offers, now)
        self._ease(loads, now)
        return changes

    # -- what is short --------------------------------------------------------------------------------------

    def _find_shortages(self, loads: Mapping[str, BrokerLoad], now: float) -> bool:
        """Take up brokers that have become short; whether there is one."""
        if self._paused():
            return False
        if self._congestion.mode is Mode.ALWAYS:
            new = [broker for broker, load in loads.items() if load.capacity and broker not in self._short]
            self._short.update(dict.fromkeys(new))
            return bool(new)
        for load in loads.values():
            if load.measured is LoadState.OVERLOAD and load.broker not in self._short:
                lacking = self._watch.lacking(load, self._around.room_elsewhere(load, now), now)
                if lacking and load.broker not in self._around.declared(now):
                    more = ", ".join(metric.value for metric in lacking)
                    self._around.declare(load, [f"it must lose more {more} than anybody has room for"], now)
        new = [
            broker
            for broker in self._around.declared(now)
            if broker in loads and broker not in self._short and loads[broker].measured is LoadState.OVERLOAD
        ]
        declared = self._around.declared(now)
        for broker in new:
            self._short[broker] = declared[broker]
            self._eased_at.pop(broker, None)
        return bool(new)

    def _limits_of_brokers(self, loads: Mapping[str, BrokerLoad]) -> dict[str, Amounts]:
        """Brokers that are short are relieved to below the low threshold, unless all fits below it anyway.

        If they are near it under the limits in force, they are left there; the others must not become short.
        """
        low, margin = self._balancing.low, MARGIN * (self._balancing.high - self._balancing.low)
        budgets: dict[str, Amounts] = {}
        for broker, load in loads.items():
            if not load.capacity or not load.reachable:
                continue
            if broker not in self._short:
                budgets[broker] = self._budgets.of(load, low + margin)
                continue
            budgets[broker] = self._budgets.of(load, low)
            if self.plan.exceeds(broker, budgets[broker]):
                used = self._used(load)
                share = used if low - margin <= used <= low + margin else low - margin
                budgets[broker] = self._budgets.of(load, share)
        return budgets

    def _used(self, load: BrokerLoad) -> float:
        """The fullest metric of a broker as it was last planned, under the limits in force."""
        if load.broker not in self.plan.budgets:
            return math.inf
        rates = {key: limit.msg_s for key, limit in self.limits.items()}
        shares = self._budgets.utilisation(load, used_under(self.plan, rates, load.broker))
        return max(shares.values(), default=0.0)

    def as_offered(self, load: BrokerLoad) -> dict[Metric, float]:
        """What a broker's utilisation would be if nobody were limited; empty if nobody is."""
        wanted = self.plan.wanted.get(load.broker)
        if not self.limits or wanted is None or not load.reachable:
            return {}
        return self._budgets.utilisation(load, wanted)

    def offered_parts(self) -> dict[str, float]:
        """How many times what is said of limited topics would be said without limits, as was last known."""
        limited = {topic for topic, _ in self.limits}
        said, offered = dict.fromkeys(limited, 0.0), dict.fromkeys(limited, 0.0)
        for (topic, _), planned in self.plan.publishers.items() if limited else ():
            if topic in limited:
                said[topic] += planned.publisher.said_msg_s
                offered[topic] += planned.publisher.offered_msg_s
        return {topic: max(1.0, offered[topic] / rate) for topic, rate in said.items() if rate > 0.0}

    def _ease(self, loads: Mapping[str, BrokerLoad], now: float) -> None:
        """Brokers that could carry all that is offered are short no more."""
        if self._congestion.mode is Mode.ALWAYS:
            return
        blamed = {broker for limit in self.limits.values() for broker in limit.brokers}
        for broker in list(self._short):
            load = loads[broker]
            overloaded = load.reachable and load.measured is LoadState.OVERLOAD
            if broker in blamed or overloaded or self.plan.exceeded(broker):
                self._eased_at.pop(broker, None)
                continue
            eased_s = now - self._eased_at.setdefault(broker, now)
            if eased_s >= self._congestion.lift_after_s or not self.limits:
                del self._short[broker]
        if not self._short and not self.limits and self.state is not ControlState.CLEAR:
            self._step(Change.NOBODY_LIMITED, now)
            self._budgets.forget()
            self._planner.forget()
            self._eased_at.clear()
            self._room_since = None

    # -- limits ---------------------------------------------------------------------------------------------

    def _follow(self, offers: Sequence[TopicOffer], now: float) -> Changes:
        """Bring the limits in force nearer to the plan."""
        wanted = {key: planned for key, planned in self.plan.publishers.items() if planned.limited}
        changes: Changes = dict.fromkeys(key for key in self.limits if key not in self.plan.publishers)
        lower = [key for key, planned in wanted.items() if self._is_lower(key, planned)]
        higher = [key for key in self.limits if key not in changes and self._is_higher(key, wanted.get(key))]
        if lower:
            self._room_since = None
            if self.state is ControlState.LIFTING:
                self._step(Change.SHORTAGE, now)
            changes |= {key: self._limit(key, wanted[key], now) for key in lower}
            changes |= {key: self._limit(key, wanted.get(key), now) for key in higher}
        elif not higher:
            self._room_since = None
            if self.state is ControlState.LIFTING and self.limits:
                self._step(Change.NOTHING_TO_RAISE, now)
        else:
            changes |= self._lift(higher, now)
        self._apply(changes, len(lower), now)
        return changes

    def _lift(self, higher: Sequence[Key], now: float) -> Changes:
        if self.state is ControlState.CONGESTED:
            if self._room_since is None:
                self._room_since = now
            if now < self._room_since + self._congestion.lift_after_s:
                return {}
            self._step(Change.ROOM_LASTS, now)
            self._steps_left = STEPS
        rates = {key: limit.msg_s for key, limit in self.limits.items()}
        found = raised(self.plan, rates, higher, max(1, self._steps_left))
        self._steps_left -= 1
        changes: Changes = {}
        for key, rate in found.items():
            planned = self.plan.publishers[key]
            if rate is None:
                changes[key] = None
            else:
                limit = self._limit(key, planned, now)
                changes[key] = None if limit is None else replace(limit, msg_s=rate, probing=False)
        return changes

    def _is_lower(self, key: Key, planned: Planned) -> bool:
        limit = self.limits.get(key)
        return limit is None or planned.allowed_msg_s < limit.msg_s * (1.0 - SAME)

    def _is_higher(self, key: Key, planned: Planned | None) -> bool:
        return planned is None or planned.allowed_msg_s > self.limits[key].msg_s * (1.0 + SAME)

    def _limit(self, key: Key, planned: Planned | None, now: float) -> Limit | None:
        if planned is None:
            return None
        before = self.limits.get(key)
        carrying = sorted(planned.offer.copies)
        return Limit(
            msg_s=planned.allowed_msg_s,
            since=now if before is None else before.since,
            utility=planned.publisher.utility,
            importance=planned.importance,
            offered_msg_s=planned.demand_msg_s,
            brokers=tuple(broker for broker in carrying if self.plan.exceeded(broker))
            or tuple(broker for broker in carrying if broker in self._short),
            probing=planned.probing,
        )

    def _apply(self, changes: Changes, lowered: int, now: float) -> None:
        if not changes:
            return
        before = {key: limit.msg_s for key, limit in self.limits.items()}
        for key, limit in changes.items():
            if limit is None:
                self.limits.pop(key, None)
            else:
                self.limits[key] = limit
        if self._is_material(before, changes):
            self._changed_at = now
        self._note_changes(changes, lowered, now)

    def _is_material(self, before: Mapping[Key, float], changes: Changes) -> bool:
        """Whether brokers will carry something else than they did."""
        total = changed = 0.0
        for key, planned in self.plan.publishers.items():
            total += min(planned.demand_msg_s, before.get(key, planned.demand_msg_s))
            if key in changes:
                limit = changes[key]
                after = planned.demand_msg_s if limit is None else limit.msg_s
                changed += abs(after - before.get(key, planned.demand_msg_s))
        return changed > MATERIAL * total

    # -- what is said of it ---------------------------------------------------------------------------------

    def _step(self, change: Change, now: float) -> None:
        before, self.state = self.state, next_state(self.state, change)
        if self.state is before:
            return
        self.since = now
        if self.state is ControlState.CLEAR:
            self._log.note(CongestionOver(), now, self._limited_by)
            self._limited_by = None

    def _note_changes(self, changes: Changes, lowered: int, now: float) -> None:
        topics = {topic for topic, _ in self.limits}
        if lowered:
            fresh = sum(limit is not None and limit.since == now for limit in changes.values())
            if fresh <= NOTED_PART * len(self.limits) and now < self._noted_at + NOTED_S:
                return
            self._noted_at = now
            examples = sorted(
                ((key, limit) for key, limit in changes.items() if limit is not None),
                key=lambda each: (each[1].importance, each[0]),
            )
            brokers = tuple(sorted({broker for _, limit in examples for broker in limit.brokers}))
            cause = next((self._short[broker] for broker in brokers if self._short.get(broker)), None)
            self._limited_by = self._log.note(
                PublishersLimited(
                    topics=len(topics),
                    publishers=len(self.limits),
                    stopped=sum(limit.probing for limit in self.limits.values()),
                    brokers=tuple(map(self._named, brokers)),
                    examples=tuple(_example(key, limit) for key, limit in examples[:EXAMPLES]),
                ),
                now,
                cause or self._limited_by,
            )
        else:
            self._limited_by = self._log.note(
                LimitsRaised(
                    publishers=len(changes),
                    left=len(self.limits),
                    examples=tuple(topic for topic, _ in list(changes)[:EXAMPLES]),
                ),
                now,
                self._limited_by,
            )

    def _named(self, broker: str) -> str:
        """A broker, and what it is short of."""
        metric = self.plan.exceeded_on(broker)
        return broker if metric is None else f"{broker} ({metric.value})"

    def _note_protected(self, now: float) -> None:
        too_much = set(self.plan.short)
        for broker in sorted(too_much - self._too_much):
            lacking = self.plan.short[broker]
            self._log.note(
                ProtectedTooMuch(
                    broker=broker,
                    lacking={metric: amount for metric, amount in lacking._asdict().items() if amount > 0.0},
                ),
                now,
                self._short.get(broker),
            )
        self._too_much = too_much


def _example(key: Key, limit: Limit) -> str:
    return (
        f"{key[0]} to {limit.msg_s:.1f} of {limit.offered_msg_s:.1f} msg/s "
        f"(utility {limit.utility:.2f}, importance {limit.importance:.3g})"
    )
