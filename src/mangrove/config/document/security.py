"""Who may do what, and how they prove who they are, of a federation file."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from mangrove.config.document.fields import MAX_ACCESS_RULES, Name, Names, Strict, listed, pattern
from mangrove.model.access.rules import Action, Default
from mangrove.model.security.rules import SecurityMode


class WhoDocument(Strict):
    """Whom a rule speaks of. What is left out, or is `*`, is anybody."""

    domain: Names = Field(default=[], description="Domain, or several.")
    role: Names = Field(
        default=[], description="`client`, `operator`, or a role that `access.roles` defines; or several."
    )
    client: Names = Field(default=[], description="Name of a client as its key was issued; or several.")


class AccessRuleDocument(Strict):
    """Who may, or may not, publish or subscribe to what. A `may_not` wins over every `may`."""

    who: WhoDocument = Field(default=WhoDocument(), description="Whom it speaks of; by default anybody.")
    may: Annotated[list[Action], BeforeValidator(listed)] = Field(default=[], description="What they may do.")
    may_not: Annotated[list[Action], BeforeValidator(listed)] = Field(
        default=[], description="What they may not do; either this or `may`."
    )
    subjects: Annotated[list[Annotated[str, AfterValidator(pattern)]], BeforeValidator(listed)] = Field(
        description="Subjects, with wildcards * and >."
    )
    to: Names = Field(
        default=[],
        description="Domains into which it may, or may not, be published; by default everywhere. A rule "
        "with it is the gateways' alone.",
    )
    origin: Names = Field(
        default=[],
        description="Domains whose messages may, or may not, be subscribed to; by default all. A rule with "
        "it is the gateways' alone.",
    )


class ContractGrantDocument(Strict):
    """Who may make, change and withdraw contracts by the SDK, besides operators."""

    who: WhoDocument = Field(default=WhoDocument(), description="Whom it speaks of; by default anybody.")
    subjects: Annotated[list[Annotated[str, AfterValidator(pattern)]], BeforeValidator(listed)] = Field(
        description="Subjects, with wildcards * and >: all that a contract matches must be among them."
    )


class AccessDocument(Strict):
    """Who may publish and subscribe to what; a list is short for `rules`."""

    default: Default = Field(
        default=Default.ALLOW, description="What holds inside a domain where no rule speaks."
    )
    between: Default = Field(
        default=Default.ALLOW,
        description="What holds between domains where no rule speaks, for subjects that leave their domain "
        "at all; `default: deny` denies both.",
    )
    roles: dict[Name, Names] = Field(
        default={}, description="Clients of each role: `name`, in any domain, or `domain/name`."
    )
    rules: Annotated[list[AccessRuleDocument], Field(max_length=MAX_ACCESS_RULES)] = Field(
        default=[], description="The rules; their order does not matter."
    )
    contracts: Annotated[list[ContractGrantDocument], Field(max_length=MAX_ACCESS_RULES)] = Field(
        default=[],
        description="Who besides operators may change contracts by the SDK; by default nobody.",
    )


class SecurityDocument(Strict):
    """Whether everybody proves who it is. `security: none` and `security: keys` are short for the `mode`."""

    mode: SecurityMode = Field(
        default=SecurityMode.KEYS,
        description="With `keys`, everybody proves who it is, and all connections are encrypted; "
        "with `none`, whoever reaches a port is believed.",
    )
    keys: str | None = Field(
        default=None,
        description="The key directory, relative to this file; by default in the run directory.",
    )
