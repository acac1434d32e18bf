"""What is wrong with a set of rules as a whole: some say the opposite of others, some say nothing new.

A rule that allows what another one always forbids can never take effect: whoever wrote it means something
else, and a federation does not start with it. A rule that repeats what others say does no harm, and is named.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from mangrove.errors import Mistake
from mangrove.model.access.pattern_index import PatternIndex
from mangrove.model.access.permissions import guard_of, spans_inboxes
from mangrove.model.access.rules import ANYBODY, AccessRules, Action, Default, Effect, Rule, Who

MAX_COMBINATIONS = 256
"""A rule that names more combinations of domains, roles and clients is not compared with others."""
MAX_WARNINGS = 20


class _Key(NamedTuple):
    """One combination of what a rule is about; `*` stands for everybody."""

    domain: str
    role: str
    client: str
    other: str


_EVERYBODY = _Key(ANYBODY, ANYBODY, ANYBODY, ANYBODY)


class _Entry(NamedTuple):
    number: int
    rule: Rule
    key: _Key
    subject: str


class _Comparison:
    """All rules by effect, action and whom they are about, and by pattern."""

    def __init__(self, rules: AccessRules) -> None:
        self._rules = rules
        self._roles_of: dict[str, list[str]] = {}
        for role, clients in rules.roles.items():
            for client in clients:
                if "/" not in client:  # the others are clients of one domain alone
                    self._roles_of.setdefault(client, []).append(role)
        self._index: dict[tuple[Effect, Action, _Key], PatternIndex[_Entry]] = {}
        self._audible: PatternIndex[_Entry] = PatternIndex()
        """What somebody may subscribe to at brokers."""
        for number, rule in enumerate(rules.rules):
            if rule.effect is Effect.MAY and Action.SUBSCRIBE in rule.actions and rule.everywhere:
                for subject in rule.subjects:
                    self._audible.add(subject, _Entry(number, rule, _EVERYBODY, subject))
            for action in rule.actions:
                for key in _keys(rule, action):
                    index = self._index.setdefault((rule.effect, action, key), PatternIndex())
                    for subject in rule.subjects:
                        index.add(subject, _Entry(number, rule, key, subject))

    def covering(self, effect: Effect, action: Action, entry: _Entry) -> Rule | None:
        """A rule with an effect that says all that an entry says, and is not the entry itself."""
        for key in self._wider(entry.key):
            index = self._index.get((effect, action, key))
            for other in index.covering(entry.subject) if index is not None else ():
                same = (other.key, other.subject) == (entry.key, entry.subject)
                if not same or other.number < entry.number or effect is not entry.rule.effect:
                    return other.rule
        return None

    def _wider(self, key: _Key) -> Iterator[_Key]:
        roles = [key.role, ANYBODY]
        if key.role == ANYBODY:
            roles = [ANYBODY, *self._roles_of.get(key.client, ())]
        for wider in product(
            dict.fromkeys((key.domain, ANYBODY)),
            dict.fromkeys(roles),
            dict.fromkeys((key.client, ANYBODY)),
            dict.fromkeys((key.other, ANYBODY)),
        ):
            yield _Key(*wider)

    def covered(self, number: int, effect: Effect) -> Iterator[tuple[str, str]]:
        """The patterns of a rule, by their place, of which other rules with an effect say everything."""
        rule = self._rules.rules[number]
        for position, subject in enumerate(rule.subjects):
            others = [
                self.covering(effect, action, _Entry(number, rule, key, subject))
                for action in rule.actions
                for key in _keys(rule, action)
            ]
            if others and (other := others[0]) is not None and None not in others:
                yield f"{rule.place}.subjects[{position}]", other.place

    def unguarded(self, rule: Rule, subject: str, place: str) -> Iterator[str]:
        """Why brokers cannot be told that somebody may subscribe to a pattern, and to no more."""
        guard = guard_of(subject)
        if self._rules.default is Default.ALLOW:
            return
        if spans_inboxes(guard):
            yield f"{place}: brokers cannot allow {subject} without more, and do not; name the first token"
            return
        for other in self._audible.overlapping(guard):
            if _may_meet(rule.who, other.rule.who):
                yield (
                    f"{place}: brokers cannot allow {subject} beside {other.subject} ({other.rule.place}) "
                    f"without all of {subject[:-1]}>; for who may both, they allow {other.subject} alone"
                )
                return


def contradictions(rules: AccessRules) -> Iterator[Mistake]:
    """What is allowed by one rule and forbidden by others in every case."""
    comparison = _Comparison(rules)
    for number, rule in enumerate(rules.rules):
        if rule.effect is Effect.MAY:
            for place, other in comparison.covered(number, Effect.MAY_NOT):
                yield Mistake(
                    place,
                    f"is allowed here and forbidden by {other}, which always wins",
                    "one of the two rules, or narrower subjects there",
                )


def access_warnings(rules: AccessRules) -> tuple[str, ...]:
    """What has no effect, or a wider one than it seems; a sentence for each, the first ones."""
    found = list(_warnings(rules))
    if len(found) > MAX_WARNINGS:
        return (*found[:MAX_WARNINGS], f"access: {len(found) - MAX_WARNINGS} more rules have no effect")
    return tuple(found)


def _warnings(rules: AccessRules) -> Iterator[str]:
    comparison = _Comparison(rules)
    everything_allowed = Default.DENY not in (rules.default, rules.between)
    for number, rule in enumerate(rules.rules):
        if rule.effect is Effect.MAY and everything_allowed:
            yield (
                f"{rule.place}: allows what is allowed anyway: nothing is refused for the lack of it "
                "without `default: deny`"
            )
            continue
        for place, other in comparison.covered(number, rule.effect):
            yield f"{place}: is shadowed by {other}, which says the same and more"
        for position, subject in enumerate(rule.subjects if rule.everywhere else ()):
            place = f"{rule.place}.subjects[{position}]"
            if rule.effect is Effect.MAY_NOT and subject != ">" and spans_inboxes(subject):
                yield f"{place}: {subject} also forbids inboxes of requests that are so long; `>` does not"
            elif rule.effect is Effect.MAY and Action.SUBSCRIBE in rule.actions and guard_of(subject):
                yield from comparison.unguarded(rule, subject, place)


def _may_meet(first: Who, second: Who) -> bool:
    """Whether somebody may be meant by both; by roles, as far as can be told without knowing all clients."""
    pairs = ((first.domain, second.domain), (first.client, second.client))
    return all(not one or not two or set(one) & set(two) for one, two in pairs)


def _keys(rule: Rule, action: Action) -> list[_Key]:
    """The combinations that a rule is about; none if they are too many."""
    others = rule.to if action is Action.PUBLISH else rule.origins
    parts = [part or (ANYBODY,) for part in (rule.who.domain, rule.who.role, rule.who.client, others)]
    size = 1
    for part in parts:
        size *= len(part)
    return [_Key(*key) for key in product(*parts)] if size <= MAX_COMBINATIONS else []
