"""What a name is called in every domain, and why."""

from __future__ import annotations

import msgspec

from mangrove.model.federation import Federation
from mangrove.model.names.domain_names import DomainNames
from mangrove.model.names.mapping import Direction
from mangrove.model.topics import overlaps


class NameInDomain(msgspec.Struct, frozen=True, kw_only=True):
    """One domain's names for what is asked about."""

    domain: str
    names: tuple[str, ...]
    """Empty: it has none there, and does not pass."""
    passes: str
    """`both`, `in`, `out`, or `none`."""
    why: str


class NameExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """A subject or pattern, what the federation calls it, and each domain."""

    asked: str
    asked_in: str
    """The domain whose name was asked about; empty: the federation's."""
    federation: tuple[str, ...]
    domains: tuple[NameInDomain, ...]


def explain_name(federation: Federation, subject: str, domain: str = "") -> NameExplanation:
    """Explain the federation's name, or that of a domain."""
    there: tuple[str, ...] = (subject,)
    if domain:
        there = DomainNames(federation.domains[domain].names).called_there(subject)
    return NameExplanation(
        asked=subject,
        asked_in=domain,
        federation=there,
        domains=tuple(_in_domain(federation, name, there) for name in federation.domains),
    )


def _in_domain(federation: Federation, domain: str, there: tuple[str, ...]) -> NameInDomain:
    mappings = federation.domains[domain].names
    names = DomainNames(mappings)
    here = tuple(dict.fromkeys(each for name in there for each in names.called_here(name)))
    enters = any(set(names.wanted_here(each)) & set(there) for each in here)
    leaves = any(set(names.wanted_elsewhere(name)) & set(here) for name in there)
    passes = {
        (True, True): Direction.BOTH.value,
        (True, False): Direction.IN.value,
        (False, True): Direction.OUT.value,
    }.get((enters, leaves), "none")
    if not mappings:
        return NameInDomain(domain=domain, names=here, passes=passes, why="it has no names of its own")
    used = [
        f"{each.local} is {each.federation}, {each.direction.value}"
        for each in mappings
        if set(names.called_there(each.local)) & {each.federation}
        and any(overlaps(each.federation, name) for name in there)
    ]
    taken = [each.local for each in mappings if any(overlaps(each.local, name) for name in there)]
    if not used and taken and not here:
        why = f"that name is taken there: {', '.join(taken)} is something else"
    else:
        why = "; ".join(used) or "no mapping speaks of it"
    return NameInDomain(domain=domain, names=here, passes=passes, why=why)
