"""What a plan was made for, as one short text: brokers, what they carry, hosts and contracts of a domain."""

from __future__ import annotations

import hashlib

import msgspec

from mangrove.model.endpoints import fixed_endpoints
from mangrove.model.federation import Federation

DIGEST_BYTES = 12


def topology_fingerprint(federation: Federation, domain: str) -> str:
    """The same for every process that reads the same file; addresses and ports do not count.

    A plan of another fingerprint was computed for other brokers, other capacities, other hosts or other
    contracts, so what it says of risks is about something else.
    """
    described = federation.domains[domain]
    endpoints = fixed_endpoints(described)
    capacities = [described.head, *described.edges]
    parts = (
        federation.name,
        domain,
        [broker.name for broker in (endpoints.head, *endpoints.edges)],
        [(each.capacity, each.bandwidth_mbps) for each in capacities],
        sorted((host.name, sorted(host.brokers)) for host in described.hosts),
        [(each.match, each.scope.value, each.mirror.value) for each in federation.topics.contracts],
    )
    return hashlib.blake2b(msgspec.json.encode(parts), digest_size=DIGEST_BYTES).hexdigest()


def hosts_of(federation: Federation, domain: str) -> dict[str, str]:
    """Broker → the host on which it runs; all on one where the file names none."""
    described = federation.domains[domain]
    endpoints = fixed_endpoints(described)
    return {
        broker.name: next(
            (host.name for host in described.hosts if broker.name.removeprefix(f"{domain}-") in host.brokers),
            "",
        )
        for broker in (endpoints.head, *endpoints.edges)
    }
