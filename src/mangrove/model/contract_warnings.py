"""What contracts ask for and cannot get, as far as the file alone tells."""

from __future__ import annotations

from collections.abc import Iterator

from mangrove.model.access.analysis import access_warnings
from mangrove.model.federation import Federation, great_circle_km
from mangrove.model.topics import Contract, TopicRules

NOT_IN_FORCE = {
    "durable": "messages are not kept for subscribers that are away",
}
"""Keys that are accepted, so that files need not change later, but do nothing yet. A key leaves this table in
the change that makes it work."""


def federation_warnings(federation: Federation) -> tuple[str, ...]:
    """Everything that a federation asks for and cannot get, and rules that have no effect."""
    return (
        *contract_warnings(federation.topics),
        *_mirror_warnings(federation),
        *_separation_warnings(federation),
        *access_warnings(federation.access),
        *_unproven_warnings(federation),
        *_secret_warnings(federation),
    )


def contract_warnings(rules: TopicRules) -> tuple[str, ...]:
    """What the contracts ask for and do not get, a sentence for each."""
    return tuple(
        f"topics[{position}] ({contract.match}): `{key}` is accepted but not in force yet; {instead}"
        for position, contract in enumerate(rules.contracts)
        for key, instead in NOT_IN_FORCE.items()
        if getattr(contract, key)
    )


def _unproven_warnings(federation: Federation) -> Iterator[str]:
    """Rules about clients, where brokers do not know who a client is."""
    access = federation.access
    if access and not federation.security.secured:
        single = [rule.place for rule in access.rules if not rule.who.whole_domains]
        named = f", and those that name roles or clients ({single[0]}, …) not at all" if single else ""
        yield f"access: without keys brokers know nobody: rules are kept between domains alone{named}"


def _mirror_warnings(federation: Federation) -> Iterator[str]:
    """Domains in which a topic has no second broker: its primary and where it is published are none."""
    few: dict[str, None] = {}
    together: dict[str, None] = {}
    for domain in federation.domains.values():
        edges = [f"edge{number + 1}" for number in range(domain.edge_slots)]
        external = () if domain.external is None else domain.external.edges
        if len(edges) + len(external) < 2:
            few[domain.name] = None
        elif len(domain.hosts) > 1:
            hosts = [host for host in domain.all_hosts if any(edge in host.brokers for edge in edges)]
            if len(hosts) == 1:
                together[domain.name] = None
    for position, contract in enumerate(federation.topics.contracts):
        if contract.mirror:
            where = f"topics[{position}] ({contract.match}): `mirror`: no second broker in"
            if few:
                yield f"{where} {', '.join(few)}: it takes two edges"
            if together:
                yield f"{where} {', '.join(together)}: all edges are on one host"


def _secret_warnings(federation: Federation) -> Iterator[str]:
    """Passwords that stand in the file: they are in the settings of processes as well."""
    for name, domain in federation.domains.items():
        external = domain.external
        if external is not None and any(
            "@" in url for url in (external.head, external.leaf, *external.edges)
        ):
            yield (
                f"domains.{name}.external: a URL has a user in it; put the password into a file, "
                "and name that under `credentials`"
            )


def _separation_warnings(federation: Federation) -> Iterator[str]:
    """Distances that cannot be told, and sites from which no path can keep the distance."""
    nowhere = sorted(name for name, site in federation.domains.items() if site.location is None)
    for position, contract in enumerate(federation.topics.contracts):
        where = f"topics[{position}] ({contract.match})"
        if not contract.separation_km:
            continue
        if nowhere:
            yield f"{where}: `separation_km` is not kept: there is no location of {', '.join(nowhere)}"
            continue
        for name, sites in _too_near(federation, contract).items():
            yield (
                f"{where}: no path can keep {contract.separation_km:g} km from region {name} "
                f"at {', '.join(sites)}: nearer already"
            )


def _too_near(federation: Federation, contract: Contract) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in contract.apart_from:
        region = federation.regions.get(name)
        if region is None:
            continue
        reach_km = region.radius_km + contract.separation_km
        near = [
            site.name
            for site in federation.domains.values()
            if site.location is not None and great_circle_km(site.location, region.centre) < reach_km
        ]
        if near:
            found[name] = near
    return found
