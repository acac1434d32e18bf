"""Rules on `access`: who and what its rules name, judged on raw data as those in `rules` are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mangrove.config.document.security import AccessDocument, WhoDocument
from mangrove.errors import Mistake
from mangrove.model.access.rules import (
    ANYBODY,
    BUILT_IN_ROLES,
    AccessRules,
    Action,
    ContractGrant,
    Effect,
    Rule,
    Who,
)

MACHINERY_ROLES = ("gateway", "broker", "agent", "host")


def access_prefix(raw: Any) -> str:
    """Where the rules stand: `access` may be a list of them, or hold them under `rules`."""
    access = raw.get("access") if isinstance(raw, dict) else None
    return "access" if isinstance(access, list) else "access.rules"


def access_mistakes(raw: dict[str, Any]) -> Iterator[Mistake]:
    """Rules without an effect or subjects, and domains and roles that there are not."""
    access = raw.get("access")
    rules = access if isinstance(access, list) else _mapping(access).get("rules")
    domains = [str(name) for name in _mapping(raw.get("domains"))]
    roles = [str(name) for name in _mapping(_mapping(access).get("roles"))]
    yield from _role_mistakes(roles)
    prefix = access_prefix(raw)
    for number, rule in enumerate(rules if isinstance(rules, list) else []):
        if isinstance(rule, dict):
            place = f"{prefix}[{number}]"
            yield from _effect_mistakes(place, rule)
            yield from _subject_mistakes(place, rule)
            yield from _who_mistakes(place, rule, domains, roles)
            yield from _other_mistakes(place, rule, domains)
    grants = _mapping(access).get("contracts")
    for number, grant in enumerate(grants if isinstance(grants, list) else []):
        if isinstance(grant, dict):
            place = f"access.contracts[{number}]"
            yield from _subject_mistakes(place, grant)
            yield from _who_mistakes(place, grant, domains, roles)


def _role_mistakes(roles: list[str]) -> Iterator[Mistake]:
    for role in roles:
        if role in (*BUILT_IN_ROLES, *MACHINERY_ROLES):
            yield Mistake(f"access.roles.{role}", "is a role that every federation has", "another name")


def _effect_mistakes(place: str, rule: dict[str, Any]) -> Iterator[Mistake]:
    said = [effect.value for effect in Effect if rule.get(effect.value)]
    if len(said) == 2:
        yield Mistake(place, "says both `may` and `may_not`", "one of them in each rule")
    elif not said:
        yield Mistake(place, "says neither `may` nor `may_not`", "`may` or `may_not`: publish, subscribe")


def _subject_mistakes(place: str, rule: dict[str, Any]) -> Iterator[Mistake]:
    subjects = _names(rule.get("subjects"))
    if not subjects:
        yield Mistake(f"{place}.subjects", "is empty: the rule would say nothing", "subjects, or `>` for all")
    for position, subject in enumerate(subjects):
        if subject in subjects[:position]:
            yield Mistake(f"{place}.subjects[{position}]", f"{subject} is named twice", "each subject once")


def _who_mistakes(
    place: str, rule: dict[str, Any], domains: list[str], roles: list[str]
) -> Iterator[Mistake]:
    who = _mapping(rule.get("who"))
    for key in ("domain", "role", "client"):
        names = _names(who.get(key))
        if ANYBODY in names and len(names) > 1:
            yield Mistake(f"{place}.who.{key}", f"`{ANYBODY}` is everybody already", "it alone, or names")
        for name in names:
            if name in (ANYBODY, ""):
                continue
            if key == "domain" and name not in domains:
                yield Mistake(f"{place}.who.domain", f"there is no domain {name!r}", ", ".join(domains))
            if key == "role" and name in MACHINERY_ROLES:
                found = f"{name!r} is a part of the federation itself, which access rules do not limit"
                yield Mistake(f"{place}.who.role", found, ", ".join((*BUILT_IN_ROLES, *roles)))
            elif key == "role" and name not in (*BUILT_IN_ROLES, *roles):
                known = ", ".join((*BUILT_IN_ROLES, *roles))
                yield Mistake(
                    f"{place}.who.role", f"there is no role {name!r}", f"{known}; see `access.roles`"
                )


def _other_mistakes(place: str, rule: dict[str, Any], domains: list[str]) -> Iterator[Mistake]:
    """`to` goes with publish, `origin` with subscribe, and both name other domains."""
    actions = [*_names(rule.get("may")), *_names(rule.get("may_not"))]
    for key, action in (("to", Action.PUBLISH), ("origin", Action.SUBSCRIBE)):
        names = [name for name in _names(rule.get(key)) if name != ANYBODY]
        if names and actions and actions != [action]:
            yield Mistake(f"{place}.{key}", f"goes with {action} alone", f"a rule of its own for {action}")
        for name in names:
            if name not in domains:
                yield Mistake(f"{place}.{key}", f"there is no domain {name!r}", ", ".join(domains))
            elif _names(_mapping(rule.get("who")).get("domain")) == [name]:
                yield Mistake(f"{place}.{key}", f"{name} is the domain itself", "other domains")


def _names(value: Any) -> list[str]:
    """One name, or a list of them."""
    if isinstance(value, str):
        return [value]
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def access_of(document: AccessDocument, prefix: str) -> AccessRules:
    """The rules as the rest of the program knows them, each with its place."""
    return AccessRules(
        default=document.default,
        between=document.between,
        roles={role: tuple(clients) for role, clients in document.roles.items()},
        rules=tuple(
            Rule(
                place=f"{prefix}[{number}]",
                effect=Effect.MAY if rule.may else Effect.MAY_NOT,
                actions=tuple(dict.fromkeys(rule.may or rule.may_not)),
                subjects=tuple(rule.subjects),
                who=_who(rule.who),
                to=tuple(rule.to),
                origins=tuple(rule.origin),
            )
            for number, rule in enumerate(document.rules)
        ),
        contracts=tuple(
            ContractGrant(subjects=tuple(grant.subjects), who=_who(grant.who)) for grant in document.contracts
        ),
    )


def _who(document: WhoDocument) -> Who:
    return Who(domain=tuple(document.domain), role=tuple(document.role), client=tuple(document.client))
