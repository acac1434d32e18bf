"""One plan as it is used: where a topic belongs, in the state in which the domain is."""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from mangrove.model.plans.packing import PackingError, packed, unpacked
from mangrove.model.plans.plan import Placing, Plan, PlanCase
from mangrove.model.subjects import covers
from mangrove.model.unreadable import UNREADABLE

REMEMBERED = 100_000
"""Topics of which it is known where they belong; beyond it the oldest are looked up again."""


class PlanDecision(msgspec.Struct, frozen=True, kw_only=True):
    """What all agents hold of a plan: the plan, and on whose word it is in force."""

    plan: Plan
    digest: str
    since: float
    """Seconds since 1970, when it was proposed."""
    by: str = ""
    what: str = "applied"
    at_once: bool = True


_decoder = msgspec.json.Decoder(PlanDecision)


def encoded(policy: PlanDecision) -> bytes:
    """As it is replicated and kept."""
    return packed(msgspec.json.encode(policy))


def decoded(body: bytes) -> PlanDecision | None:
    """From what was replicated; None if it is nothing that this version can use."""
    try:
        return _decoder.decode(unpacked(body))
    except (PackingError, *UNREADABLE):
        return None


class PlanInForce:
    """A plan with an index of its topics.

    A subscription belongs to the item that has exactly its subject; else to the first whose pattern covers
    it; else, if it covers topics of one place alone, to that place.
    """

    def __init__(self, version: int, decision: PlanDecision) -> None:
        self.version = version
        self.decision = decision
        self.plan: Plan = decision.plan
        self._exact = {topic: item.item for item in self.plan.items for topic in item.topics}
        self._patterns = [
            (topic, item.item)
            for item in self.plan.items
            for topic in item.topics
            if "*" in topic or ">" in topic
        ]
        # A head that serves nobody is in no case: the others are as good without it.
        self._brokers = frozenset(
            broker
            for case in self.plan.cases
            for broker in (
                *case.failed,
                *case.off,
                *case.risk,
                *(each.primary for each in case.placing.values()),
            )
        )
        self._items: OrderedDict[str, tuple[str, ...]] = OrderedDict()
        self._topics = {item.item: item.topics for item in self.plan.items}
        self.mirrored_items = frozenset(item.item for item in self.plan.items if item.mirrored)

    def topics_of(self, item: str) -> tuple[str, ...]:
        """Subjects and patterns of an item."""
        return self._topics.get(item, ())

    def items_of(self, topic: str) -> tuple[str, ...]:
        """Items to which a subject or pattern belongs."""
        known = self._items.get(topic)
        if known is not None:
            return known
        found = self._find(topic)
        self._items[topic] = found
        if len(self._items) > REMEMBERED:
            self._items.popitem(last=False)
        return found

    def _find(self, topic: str) -> tuple[str, ...]:
        exact = self._exact.get(topic)
        if exact is not None:
            return (exact,)
        for pattern, item in self._patterns:
            if covers(pattern, topic):
                return (item,)
        if "*" not in topic and ">" not in topic:
            return ()
        return tuple(dict.fromkeys(item for each, item in self._exact.items() if covers(topic, each)))

    def case(self, down: frozenset[str], load: float = 1.0) -> PlanCase | None:
        """The policy of a state; None when the plan has none that does without the brokers that are down."""
        return self.plan.case_for(down & self._brokers, load)

    def planned(self, topic: str, down: frozenset[str] = frozenset()) -> Placing | None:
        """Where a topic belongs; None when the plan does not say, or names only brokers that are down."""
        items = self.items_of(topic)
        if not items:
            return None
        case = self.case(down) or self.plan.normal
        placings = {case.placing[item] for item in items if item in case.placing}
        if len({each.primary for each in placings}) != 1:
            return None
        primary = next(iter(placings)).primary
        mirrors = {each.mirror for each in placings if each.mirror and each.mirror != primary}
        mirror = mirrors.pop() if len(mirrors) == 1 else ""
        if mirror in down:
            mirror = ""
        if primary in down:
            return Placing(primary=mirror) if mirror else None
        return Placing(primary=primary, mirror=mirror)
