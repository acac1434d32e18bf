"""What the rules decide, and by which of them: for a client at a broker, and between two domains.

A broker knows who publishes, a gateway only from which domain a message comes. So between domains a rule that
forbids counts if it speaks of everybody in the domain, and one that allows if it speaks of somebody there:
what single clients may not do, their broker refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum, StrEnum

import msgspec

from mangrove.model.access.pattern_index import PatternIndex
from mangrove.model.access.rules import AccessRules, Action, Default, Effect, Principal, Rule
from mangrove.model.subjects import is_internal

MAX_REMEMBERED = 1 << 15
"""Decisions that are kept, so that a subject that is used again costs a look-up."""


class Ground(StrEnum):
    """Why something is allowed or refused."""

    RULE = "rule"
    DEFAULT = "default"
    INTERNAL = "internal"


class Decision(msgspec.Struct, frozen=True):
    """Whether something is allowed, and why."""

    allowed: bool
    ground: Ground
    place: str
    """The rule, or the default, by its place in the file."""
    action: Action = Action.PUBLISH

    def __bool__(self) -> bool:
        return self.allowed

    @property
    def reason(self) -> str:
        """In words."""
        verb = "allowed" if self.allowed else "refused"
        if self.ground is Ground.INTERNAL:
            return f"{verb}: internal subjects stay in their domain"
        if self.ground is Ground.DEFAULT:
            return f"{verb}: no rule speaks of it, and {self.place} says so"
        return f"{verb} by {self.place}"


class Extent(Enum):
    """How much of what a pattern stands for is allowed."""

    NONE = "none"
    PART = "part"
    ALL = "all"


INTERNAL = Decision(False, Ground.INTERNAL, "internal subjects")
DEFAULT_PLACE = "access.default"
BETWEEN_PLACE = "access.between"

_Applies = Callable[[Rule], bool]
_Speaking = tuple[tuple[Rule, ...], tuple[Rule, ...]]


class AccessJudge:
    """The rules in a form that answers quickly; decisions between domains are remembered."""

    def __init__(self, rules: AccessRules) -> None:
        self.rules = rules
        self._index: dict[tuple[Effect, Action], PatternIndex[Rule]] = {
            (effect, action): PatternIndex() for effect in Effect for action in Action
        }
        self._order = {rule.place: number for number, rule in enumerate(rules.rules)}
        for rule in rules.rules:
            for action in rule.actions:
                for subject in rule.subjects:
                    self._index[rule.effect, action].add(subject, rule)
        self._spoken_of: dict[tuple[Action, str], _Speaking] = {}
        self._remembered: dict[tuple[str, str, str], Decision] = {}

    # -- one client, at a broker --------------------------------------------------------------------------

    def decide(self, principal: Principal, action: Action, subject: str) -> Decision:
        """Whether a client may publish, or subscribe, to a literal subject at a broker of its domain."""
        roles = self.rules.roles_of(principal)

        def applies(rule: Rule) -> bool:
            return rule.everywhere and rule.who.is_meant(principal, roles)

        return self._decision(action, subject, applies, applies, self.rules.default, DEFAULT_PLACE)

    def extent(self, principal: Principal, action: Action, pattern: str) -> Extent:
        """How much of a pattern a client may subscribe to."""
        roles = self.rules.roles_of(principal)

        def applies(rule: Rule) -> bool:
            return rule.everywhere and rule.who.is_meant(principal, roles)

        return self._extent(action, pattern, applies, applies, self.rules.default)

    # -- between two domains ------------------------------------------------------------------------------

    def crossing(self, origin: str, destination: str, subject: str) -> Decision:
        """Whether a message on a literal subject may pass from one domain to another.

        It may if somebody there may publish it into the other, and somebody here may subscribe to it.
        """
        key = (origin, destination, subject)
        found = self._remembered.get(key)
        if found is None:
            if len(self._remembered) >= MAX_REMEMBERED:
                self._remembered.clear()
            found = self._remembered[key] = self._crossing(origin, destination, subject)
        return found

    def _crossing(self, origin: str, destination: str, subject: str) -> Decision:
        if is_internal(subject):
            return INTERNAL
        published = self._at_large(Action.PUBLISH, origin, destination, subject)
        return published and self._at_large(Action.SUBSCRIBE, destination, origin, subject)

    def may_hear(self, domain: str, pattern: str) -> bool:
        """Whether any subject under a pattern may come to a domain from some other one."""
        default = _stricter(self.rules.default, self.rules.between)
        extent = self._extent(
            Action.SUBSCRIBE,
            pattern,
            lambda rule: rule.everywhere and rule.who.whole_domains and rule.who.in_domain(domain),
            lambda rule: rule.who.in_domain(domain),
            default,
        )
        return extent is not Extent.NONE

    def may_tell(self, origin: str, destination: str, pattern: str) -> bool:
        """Whether any subject under a pattern may pass from one domain to another."""
        default = _stricter(self.rules.default, self.rules.between)
        return all(
            self._extent(
                action,
                pattern,
                self._forbids(action, here, there),
                self._allows(action, here, there),
                default,
            )
            is not Extent.NONE
            for action, here, there in (
                (Action.PUBLISH, origin, destination),
                (Action.SUBSCRIBE, destination, origin),
            )
        )

    def _at_large(self, action: Action, here: str, there: str, subject: str) -> Decision:
        """What is decided of somebody in a domain whose name is not known."""
        inside, between = self.rules.default, self.rules.between
        place = DEFAULT_PLACE if inside is Default.DENY else BETWEEN_PLACE
        return self._decision(
            action,
            subject,
            self._forbids(action, here, there),
            self._allows(action, here, there),
            _stricter(inside, between),
            place,
        )

    @staticmethod
    def _forbids(action: Action, here: str, there: str) -> _Applies:
        return lambda rule: rule.who.whole_domains and rule.who.in_domain(here) and rule.passes(action, there)

    @staticmethod
    def _allows(action: Action, here: str, there: str) -> _Applies:
        return lambda rule: rule.who.in_domain(here) and rule.passes(action, there)

    # -- inside -------------------------------------------------------------------------------------------

    def _decision(
        self,
        action: Action,
        subject: str,
        forbids: _Applies,
        allows: _Applies,
        default: Default,
        default_place: str,
    ) -> Decision:
        forbidding, allowing = self._speaking(action, subject)
        for rule in forbidding:
            if forbids(rule):
                return Decision(False, Ground.RULE, rule.place, action)
        for rule in allowing:
            if allows(rule):
                return Decision(True, Ground.RULE, rule.place, action)
        return Decision(default is Default.ALLOW, Ground.DEFAULT, default_place, action)

    def _speaking(self, action: Action, subject: str) -> _Speaking:
        """The rules that forbid and allow something with a subject, whoever it is, in the file's order."""
        key = (action, subject)
        found = self._spoken_of.get(key)
        if found is None:
            if len(self._spoken_of) >= MAX_REMEMBERED:
                self._spoken_of.clear()
            # A published subject may hold wildcards as plain tokens: what is forbidden in part is refused.
            found = self._spoken_of[key] = (
                self._in_order(self._index[Effect.MAY_NOT, action].overlapping(subject)),
                self._in_order(self._index[Effect.MAY, action].covering(subject)),
            )
        return found

    def _extent(
        self, action: Action, pattern: str, forbids: _Applies, allows: _Applies, default: Default
    ) -> Extent:
        denying, allowing = self._index[Effect.MAY_NOT, action], self._index[Effect.MAY, action]
        if any(map(forbids, denying.covering(pattern))):
            return Extent.NONE
        if default is Default.DENY and not any(map(allows, allowing.overlapping(pattern))):
            return Extent.NONE
        whole = default is Default.ALLOW or any(map(allows, allowing.covering(pattern)))
        return Extent.PART if not whole or any(map(forbids, denying.overlapping(pattern))) else Extent.ALL

    def _in_order(self, rules: Iterable[Rule]) -> tuple[Rule, ...]:
        found = tuple(rules)
        return found if len(found) < 2 else tuple(sorted(found, key=lambda rule: self._order[rule.place]))


def _stricter(first: Default, second: Default) -> Default:
    return Default.DENY if Default.DENY in (first, second) else Default.ALLOW
