"""What the rules mean to a broker: lists of patterns in the way of nats-server, for one client.

nats-server decides as the rules do: what is denied wins over what is allowed. A subscription to a pattern of
which only a part is denied is taken, and the broker leaves out that part when it delivers; one that reaches
beyond what is allowed is refused. MQTT topics are judged by the same lists: `a/b` is `a.b` to the broker.

In one thing it is laxer: who may subscribe to `a.*` may subscribe to `a.>` too (the `*` takes the `>` for a
token), and would hear `a.b.c`. So each allowed pattern that ends in `*` comes with a *guard*, here `a.*.>`,
among what is denied. Where something under the guard is allowed as well, no list can say both: then the
pattern is withheld, and the client may do less than the rules say, never more.

Second copies of mirrored topics travel under a prefix of their own (`MIRROR_PREFIX`): each pattern stands
for them as well, or they would be a way around it.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from mangrove.model.access.pattern_index import PatternIndex
from mangrove.model.access.rules import AccessRules, Action, Default, Effect, Principal
from mangrove.model.patterns.cover import PatternCover
from mangrove.model.shared_names import MIRROR_PREFIX

EVERYTHING = ">"


class PatternLists(msgspec.Struct, frozen=True):
    """What is allowed, less what is denied.

    `>` stands for everything, also for internal subjects: who renders it adds what the machinery needs
    denied. An empty `allow` stands for nothing at all. nats-server takes an empty list for everything, so
    it must not be written as one.
    """

    allow: tuple[str, ...]
    deny: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()
    """Patterns that the rules allow and that the broker cannot be told without allowing more."""

    @property
    def unlimited(self) -> bool:
        """Whether no rule limits anything."""
        return EVERYTHING in self.allow and not self.deny


class Permissions(msgspec.Struct, frozen=True):
    """What a client may publish and subscribe to at the data brokers of its domain."""

    publish: PatternLists
    subscribe: PatternLists


def permissions_of(rules: AccessRules, principal: Principal) -> Permissions:
    """The lists for one client. Rules between domains (`to`, `origin`) are the gateways' alone."""
    roles = rules.roles_of(principal)
    found: dict[tuple[Action, Effect], list[str]] = {}
    for rule in rules.rules:
        if rule.everywhere and rule.who.is_meant(principal, roles):
            for action in rule.actions:
                found.setdefault((action, rule.effect), []).extend(rule.subjects)

    def lists(action: Action) -> PatternLists:
        denied = _widest(found.get((action, Effect.MAY_NOT), ()))
        if EVERYTHING in denied:
            # A denied `>` would take in inboxes and what else is needed: nothing is allowed instead.
            return PatternLists(())
        if rules.default is Default.ALLOW:
            return PatternLists((EVERYTHING,), _with_copies(denied))
        allowed = _widest(found.get((action, Effect.MAY), ()))
        if action is Action.PUBLISH:  # published subjects are taken literally
            return PatternLists(_with_copies(allowed), _with_copies(denied))
        kept, guards = _guarded(allowed)
        withheld = tuple(pattern for pattern in allowed if pattern not in kept)
        return PatternLists(_with_copies(kept), _with_copies(_widest((*denied, *guards))), withheld)

    return Permissions(lists(Action.PUBLISH), lists(Action.SUBSCRIBE))


def guard_of(pattern: str) -> str:
    """What must be denied beside a pattern that is allowed, so that no more is heard; empty if nothing."""
    return f"{pattern}.>" if pattern.split(".")[-1] == "*" else ""


def spans_inboxes(pattern: str) -> bool:
    """Whether a pattern that is denied takes the inboxes of requests with it."""
    return all(token in ("*", ">") for token in pattern.split("."))


def _guarded(allowed: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Patterns that can be allowed exactly, and their guards."""
    index: PatternIndex[None] = PatternIndex()
    for pattern in allowed:
        index.add(pattern, None)
    kept: list[str] = []
    guards: list[str] = []
    for pattern in allowed:
        guard = guard_of(pattern)
        if not guard:
            kept.append(pattern)
        elif not spans_inboxes(guard) and not any(True for _ in index.overlapping(guard)):
            kept.append(pattern)
            guards.append(guard)
    return tuple(kept), tuple(guards)


def _widest(patterns: Iterable[str]) -> tuple[str, ...]:
    """Those that no other one covers, each once."""
    return tuple(sorted(PatternCover(dict.fromkeys(patterns, 0)).weights))


def _with_copies(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """The same, and for second copies."""
    if EVERYTHING in patterns:
        return (EVERYTHING,)
    return (*patterns, *(f"{MIRROR_PREFIX}{pattern}" for pattern in patterns))
