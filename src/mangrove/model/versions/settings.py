"""What a document settles besides contracts: limits, access rules, transforms, regions, congestion control.

A document that says nothing of one of them leaves it to the file of each site. So a federation that never
changed its access rules may have others at each site, as before; once it has, all have the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from mangrove.model.access.rules import ANYBODY, BUILT_IN_ROLES, AccessRules, ContractGrant, Rule
from mangrove.model.federation import Federation
from mangrove.model.subjects import subject_problem
from mangrove.model.versions.document import SETTINGS, FederationDocument

MAX_RULES = 1024
MAX_NAMES = 4096
"""Clients and roles that rules and grants may name in all."""
MAX_TRANSFORMS = 256
MAX_REGIONS = 256
MAX_NAME = 63
_SINGULAR = {"transforms": "transform", "regions": "region"}


def wanted_settings(document: FederationDocument, running: Federation, wanted: Federation) -> dict[str, Any]:
    """What a file has otherwise than what is in force; `running` is the file of a site that runs."""
    found = {}
    for key in SETTINGS:
        said = getattr(document, key)
        if getattr(wanted, key) != (getattr(running, key) if said is None else said):
            found[key] = getattr(wanted, key)
    return found


def settings_of(document: FederationDocument) -> dict[str, Any]:
    """All that a document says of settings; None: it leaves that to each site."""
    return {key: getattr(document, key) for key in SETTINGS}


def setting_changes(key: str, before: Any, after: Any) -> Iterator[str]:
    """For people: what one says otherwise than the other; None is what each site's file says."""
    if after is None:
        yield f"{key}: as in the file of each site"
        return
    if key == "access":
        yield from _access_changes(before if before is not None else AccessRules(), after)
        return
    if key in _SINGULAR:
        yield from _table_changes(_SINGULAR[key], before or {}, after)
        return
    old, new = (dict(_flat("", msgspec.to_builtins(each))) for each in (before, after))
    changed = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    unknown = "?" if before is None else None
    yield from (f"{key}: {name} {old.get(name, unknown)} → {new.get(name)}" for name in changed)


def _flat(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(f"{prefix}.{key}" if prefix else str(key), inner)
    elif prefix:
        yield prefix, value


def _table_changes(what: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted({*before, *after}):
        if name not in before:
            yield f"new {what} {name}"
        elif name not in after:
            yield f"{what} {name} is withdrawn"
        elif before[name] != after[name]:
            yield f"{what} {name} changes"


def _access_changes(before: AccessRules, after: AccessRules) -> Iterator[str]:
    for key in ("default", "between"):
        old, new = getattr(before, key), getattr(after, key)
        if old is not new:
            yield f"access: {key} {old.value} → {new.value}"
    for role in sorted({*before.roles, *after.roles}):
        if before.roles.get(role) != after.roles.get(role):
            clients = ", ".join(after.roles.get(role, ())) or "nobody"
            yield f"access: role {role} has {clients}"
    old_rules, new_rules = map(rule_text, before.rules), map(rule_text, after.rules)
    old_texts, new_texts = dict.fromkeys(old_rules), dict.fromkeys(new_rules)
    yield from (f"access: new rule: {each}" for each in new_texts if each not in old_texts)
    yield from (f"access: no longer: {each}" for each in old_texts if each not in new_texts)
    old_grants, new_grants = (dict.fromkeys(map(_grant_text, each.contracts)) for each in (before, after))
    yield from (f"access: new grant: {each}" for each in new_grants if each not in old_grants)
    yield from (f"access: no longer: {each}" for each in old_grants if each not in new_grants)
    if old_texts == new_texts and before.rules != after.rules:
        yield "access: rules stand in another order"


def rule_text(rule: Rule) -> str:
    """A rule in one line."""
    actions = " and ".join(action.value for action in rule.actions)
    text = f"{rule.who} {rule.effect.value.replace('_', ' ')} {actions} {', '.join(rule.subjects)}"
    if rule.to:
        text += f" to {', '.join(rule.to)}"
    if rule.origins:
        text += f" from {', '.join(rule.origins)}"
    return text


def _grant_text(grant: ContractGrant) -> str:
    return f"{grant.who} may change contracts of {', '.join(grant.subjects)}"


def setting_mistakes(document: FederationDocument) -> Iterator[str]:
    """Bounds by which a gateway would be harmed; all else was checked where the document was written."""
    limits = document.limits
    if limits is not None and limits.subjects < 1:
        yield f"limits: subjects is {limits.subjects}"
    for name in document.transforms or ():
        if not name or len(name) > MAX_NAME:
            yield f"a transform cannot be called {name[:MAX_NAME]!r}"
    if len(document.transforms or ()) > MAX_TRANSFORMS:
        yield "it has too many transforms"
    if len(document.regions or ()) > MAX_REGIONS:
        yield "it has too many regions"
    if document.transforms is not None:
        uses = {each.transform.use for each in document.topics.contracts if each.transform is not None}
        if missing := sorted(uses - document.transforms.keys()):
            yield f"contracts use transforms that it does not have: {', '.join(missing)}"
    if document.access is not None:
        yield from _access_mistakes(document.access, frozenset(document.domains))


def _access_mistakes(access: AccessRules, domains: frozenset[str]) -> Iterator[str]:
    whos = [*(rule.who for rule in access.rules), *(grant.who for grant in access.contracts)]
    named = sum(len(who.client) + len(who.role) for who in whos) + sum(map(len, access.roles.values()))
    if len(whos) > MAX_RULES or named > MAX_NAMES:
        yield "it has too many access rules"
        return
    roles = {*BUILT_IN_ROLES, *access.roles, ANYBODY}
    for rule in access.rules:
        for subject in rule.subjects:
            if problem := subject_problem(subject, wildcards=True):
                yield f"{rule.place} is about no subject: {problem}"
        if unknown := sorted({*rule.who.domain, *rule.to, *rule.origins} - domains - {ANYBODY}):
            yield f"{rule.place} names {', '.join(unknown)}, which the federation does not have"
        if unknown := sorted(set(rule.who.role) - roles):
            yield f"{rule.place} names roles that nobody can have: {', '.join(unknown)}"
