"""What the rules mean to a broker: lists of patterns in the way of nats-server, for one client.

nats-server decides as the rules do: what is denied wins over what is allowed. A subscription to a pattern of
which only a part is denied is taken, and the broker leaves out that part when it delivers; one that reaches
beyond what is allowed is refused. MQTT topics are judged by the same lists: `a/b` is `a.b` to the broker.

Second copies of mirrored topics travel under a prefix of their own (`MIRROR_PREFIX`): each pattern stands
for them as well, or they would be a way around it.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from mangrove.model.access.rules import AccessRules, Action, Default, Effect, Principal
from mangrove.model.pattern_cover import PatternCover
from mangrove.model.shared_names import MIRROR_PREFIX

EVERYTHING = ">"


class PatternLists(msgspec.Struct, frozen=True):
    """What is allowed, less what is denied. `>` stands for everything, an empty `allow` for nothing at all:
    nats-server takes an empty list of what may be subscribed to for everything, so it must not be written.

    `>` spans internal subjects too: who renders it adds what the machinery needs denied.
    """

    allow: tuple[str, ...]
    deny: tuple[str, ...] = ()

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
    return Permissions(*(_lists(rules, action, found) for action in (Action.PUBLISH, Action.SUBSCRIBE)))


def _lists(rules: AccessRules, action: Action, found: dict[tuple[Action, Effect], list[str]]) -> PatternLists:
    denied = found.get((action, Effect.MAY_NOT), [])
    if EVERYTHING in denied:
        # A denied `>` would take in the inboxes and what else the machinery needs: allow nothing instead.
        return PatternLists(())
    allowed = [EVERYTHING] if rules.default is Default.ALLOW else found.get((action, Effect.MAY), [])
    return PatternLists(_with_copies(allowed), _with_copies(denied))


def _with_copies(patterns: Iterable[str]) -> tuple[str, ...]:
    """The widest of some patterns, each once, and the same for second copies."""
    widest = sorted(PatternCover(dict.fromkeys(patterns, 0)).weights)
    if EVERYTHING in widest:
        return (EVERYTHING,)
    return (*widest, *(f"{MIRROR_PREFIX}{pattern}" for pattern in widest))
