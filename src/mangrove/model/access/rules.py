"""Access rules as the federation file states them: who may, or may not, publish or subscribe to what.

A rule that says `may_not` wins over every rule that says `may`, wherever they stand. What no rule speaks of
is decided by a default: one for what happens inside a domain, and one for what passes between domains.
Subjects that are internal (`model.subjects.is_internal`), or whose contract has scope `domain`, never pass
between domains, whatever rules say.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec

ANYBODY = "*"
"""Every domain, role or client."""

CLIENT_ROLE = "client"
OPERATOR_ROLE = "operator"
BUILT_IN_ROLES = (CLIENT_ROLE, OPERATOR_ROLE)
"""Roles that need not be defined. The processes of a federation itself are not subject to these rules."""


class Action(StrEnum):
    """What a client does with a subject."""

    PUBLISH = "publish"
    SUBSCRIBE = "subscribe"


class Effect(StrEnum):
    """What a rule says."""

    MAY = "may"
    MAY_NOT = "may_not"


class Default(StrEnum):
    """What holds where no rule speaks."""

    ALLOW = "allow"
    DENY = "deny"


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody who publishes or subscribes: a client of a domain, with its role."""

    domain: str
    client: str
    role: str = CLIENT_ROLE
    """What its identity says; roles that the file defines come on top (`AccessRules.roles_of`)."""


class Who(msgspec.Struct, frozen=True, kw_only=True):
    """Whom a rule speaks of; what is left out, or names `*`, is anybody."""

    domain: tuple[str, ...] = ()
    role: tuple[str, ...] = ()
    client: tuple[str, ...] = ()

    @property
    def whole_domains(self) -> bool:
        """Whether everybody in a domain is meant, whatever their role and name."""
        return not (self.role or self.client)

    def in_domain(self, domain: str) -> bool:
        """Whether somebody in a domain is meant."""
        return not self.domain or domain in self.domain

    def is_meant(self, principal: Principal, roles: Iterable[str]) -> bool:
        """Whether this client, who has these roles, is meant."""
        return (
            self.in_domain(principal.domain)
            and (not self.client or principal.client in self.client)
            and (not self.role or any(role in self.role for role in roles))
        )

    def __str__(self) -> str:
        parts = [
            f"{word} {', '.join(names)}"
            for word, names in (("client", self.client), ("role", self.role), ("domain", self.domain))
            if names
        ]
        return " of ".join(parts) or "anybody"


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule. `place` is where it stands in the file: refusals are counted under that name."""

    place: str
    effect: Effect
    actions: tuple[Action, ...]
    subjects: tuple[str, ...]
    who: Who = Who()
    to: tuple[str, ...] = ()
    """Domains into which it may (not) be published; empty: into all, and at home."""
    origins: tuple[str, ...] = ()
    """Domains whose messages may (not) be subscribed to; empty: of all, and of the own."""

    @property
    def everywhere(self) -> bool:
        """Whether it also holds inside a domain, and so at its brokers."""
        return not (self.to or self.origins)

    def passes(self, action: Action, other: str) -> bool:
        """Whether it speaks of messages that are exchanged with another domain (empty: with any at all)."""
        others = self.to if action is Action.PUBLISH else self.origins
        return not others or other in others


class ContractGrant(msgspec.Struct, frozen=True, kw_only=True):
    """Who may change the contracts of which subjects by the SDK."""

    subjects: tuple[str, ...]
    who: Who = Who()


class AccessRules(msgspec.Struct, frozen=True, kw_only=True):
    """All rules of a federation."""

    default: Default = Default.ALLOW
    """Inside a domain."""
    between: Default = Default.ALLOW
    """Between domains, for subjects that may leave theirs at all."""
    roles: dict[str, tuple[str, ...]] = {}
    """Clients of each role that the file defines: `name`, in any domain, or `domain/name`."""
    rules: tuple[Rule, ...] = ()
    contracts: tuple[ContractGrant, ...] = ()
    """Who besides operators may change contracts; all else is refused, whatever `default` is."""

    def __bool__(self) -> bool:
        """Whether anything is ever refused."""
        return bool(self.rules) or Default.DENY in (self.default, self.between)

    @property
    def known_roles(self) -> tuple[str, ...]:
        """All roles of which rules may speak."""
        return (*BUILT_IN_ROLES, *self.roles)

    def roles_of(self, principal: Principal) -> tuple[str, ...]:
        """The role of a client's identity, and those that the file gives it."""
        names = (principal.client, f"{principal.domain}/{principal.client}")
        given = [role for role, clients in self.roles.items() if any(name in clients for name in names)]
        return (principal.role, *given)
