"""What a changed federation file means for a site that runs: what it can take at once, and what it cannot.

What all sites agree on is changed by `mangrove apply`. Of the rest, agents take over whatever concerns them
alone when they begin a new life, and gateways the names of their domain; brokers, ports and gateways' other
settings are those of the last start.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from enum import StrEnum

import msgspec

from mangrove.model.federation import Domain, Federation
from mangrove.model.versions.document import SETTINGS

TAKEN = ("balancing", "plans")
"""Keys of the federation that agents take over."""
TAKEN_OF_DOMAINS = ("accept_load_from", "move_plain_clients", "failure_probability", "names")
"""Keys of a domain that agents, gateways, and the brokers' lists of users take over."""


class Effect(StrEnum):
    """When a change takes effect."""

    AT_ONCE = "taken at once"
    APPLY = "by `mangrove apply`"
    ELSEWHERE = "by `mangrove reload` where it runs"
    RESTART = "needs a restart"


class SiteChange(msgspec.Struct, frozen=True, kw_only=True):
    """One key that is otherwise."""

    place: str
    effect: Effect


def site_changes(running: Federation, wanted: Federation, here: Collection[str]) -> Iterator[SiteChange]:
    """What a file has otherwise; `here` are the domains that run on this machine."""
    document = ("topics", *SETTINGS)
    for key in Federation.__struct_fields__:
        if key == "domains" or getattr(running, key) == getattr(wanted, key):
            continue
        effect = Effect.AT_ONCE if key in TAKEN else Effect.APPLY if key in document else Effect.RESTART
        yield SiteChange(place=key, effect=effect)
    for name in sorted({*running.domains, *wanted.domains}):
        old, new = running.domains.get(name), wanted.domains.get(name)
        if old is None or new is None:
            yield SiteChange(place=f"domains.{name}", effect=Effect.RESTART)
            continue
        for key in Domain.__struct_fields__:
            if getattr(old, key) != getattr(new, key):
                taken = Effect.AT_ONCE if name in here else Effect.ELSEWHERE
                effect = taken if _is_taken(key, old, new) else Effect.RESTART
                yield SiteChange(place=f"domains.{name}.{key}", effect=effect)


def _is_taken(key: str, old: Domain, new: Domain) -> bool:
    if key == "edges":  # what they can carry, not how many there are
        return len(old.edges) == len(new.edges)
    if key == "elastic":  # for as many brokers as there are ports for
        return old.edge_slots == new.edge_slots
    return key in (*TAKEN_OF_DOMAINS, "head")


def reloaded(running: Federation, wanted: Federation, changes: Collection[SiteChange]) -> Federation:
    """What runs, with everything that is taken at once as it is wanted."""
    places = {change.place for change in changes if change.effect is Effect.AT_ONCE}
    keys = {key: getattr(wanted, key) for key in TAKEN if key in places}
    domains = dict(running.domains)
    for name, domain in running.domains.items():
        own = {key: f"domains.{name}.{key}" for key in Domain.__struct_fields__}
        taken = {key: getattr(wanted.domains[name], key) for key, place in own.items() if place in places}
        domains[name] = msgspec.structs.replace(domain, **taken)
    return msgspec.structs.replace(running, domains=domains, **keys)
