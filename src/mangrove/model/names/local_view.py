"""A federation's contracts and rules as a domain with names of its own sees them: by its names."""

from __future__ import annotations

from msgspec.structs import replace

from mangrove.model.federation import Federation
from mangrove.model.names.domain_names import DomainNames
from mangrove.model.subjects import covers
from mangrove.model.topics import BEST_EFFORT, Contract, TopicRules, overlaps


def local_rules(federation: Federation, domain: str) -> TopicRules:
    """The contracts by the names of a domain."""
    return rules_by(DomainNames(federation.domains[domain].names), federation.topics)


def rules_by(names: DomainNames, topics: TopicRules) -> TopicRules:
    """The contracts by some names, each subject under the one that governs it in the federation.

    What is renamed comes first: the wildcard of a contract may reach over a local name by its letters, and
    speaks of something else. Where it does, and no contract governs what is renamed, that is said.
    """
    if not names.mappings:
        return topics
    spaces = [each.local for each in names.mappings]
    renamed: list[tuple[Contract, str]] = []
    others: list[tuple[Contract, str]] = []
    for contract in topics.contracts:
        for match in names.called_here(contract.match):
            inside = any(covers(space, match) for space in spaces)
            (renamed if inside else others).append((contract, match))
    ungoverned = [
        (BEST_EFFORT, space)
        for space in spaces
        if not any(covers(match, space) for _, match in renamed)
        and any(overlaps(match, space) for _, match in others)
    ]
    return TopicRules(
        tuple(replace(contract, match=match) for contract, match in (*renamed, *ungoverned, *others))
    )


def local_federation(federation: Federation, domain: str) -> Federation:
    """The federation with its contracts by the names of a domain."""
    if not federation.domains[domain].names:
        return federation
    return replace(federation, topics=local_rules(federation, domain))


def names_of(federation: Federation, domain: str) -> DomainNames | None:
    """The names of a domain; None if it has none of its own."""
    mappings = federation.domains[domain].names
    return DomainNames(mappings) if mappings else None
