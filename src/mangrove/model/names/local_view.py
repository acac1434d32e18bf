"""A federation's contracts and rules as a domain with names of its own sees them: by its names."""

from __future__ import annotations

from msgspec.structs import replace

from mangrove.model.federation import Federation
from mangrove.model.names.domain_names import DomainNames
from mangrove.model.topics import TopicRules


def local_rules(federation: Federation, domain: str) -> TopicRules:
    """The contracts by the names of a domain, in their order; as they are, if it has none of its own."""
    names = names_of(federation, domain)
    if names is None:
        return federation.topics
    return TopicRules(
        tuple(
            replace(contract, match=match)
            for contract in federation.topics.contracts
            for match in names.called_here(contract.match)
        )
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
