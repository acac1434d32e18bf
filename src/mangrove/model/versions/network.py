"""Domains and links in the federation document: who is a member, where, and what leads from one to another.

A domain's number is given once. One that joins gets the next that was never given; the number of one that has
left is never given again, and its place in the order says so (`retired`). So a bit in a frame's set of
destinations means one domain in all versions, and who comes back under the same name is another domain.

What is private to a site (its brokers, ports of clients, keys, names) is not here: each has that in its file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import isfinite
from typing import Annotated

import msgspec

from mangrove.errors import InputError
from mangrove.model.address import AddressError
from mangrove.model.endpoints import fixed_endpoints
from mangrove.model.federation import Domain, Federation, Host, Link, Prepare, RiskGroup
from mangrove.model.site_pair import SitePair

MAX_NUMBERS = 4096
"""Numbers that may be given: failover tables are made for so many sites, and frames have room for them."""
MAX_LINKS = 16384
RETIRED = "~"
"""Stands in no name of a domain."""
LEFT_REMEDY = "stop all sites, and start them with a new federation file and empty run directories"

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=63)]


class AgreedSite(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What others need to know of a domain."""

    name: Name
    location: tuple[float, float] | None = None
    failure_probability: float | None = None
    address: str = "127.0.0.1"
    base_port: int = 0
    hosts: tuple[tuple[str, str], ...] = ()
    """Names and addresses of its machines, where there are several."""
    gateways: int = 1

    @classmethod
    def of(cls, domain: Domain) -> AgreedSite:
        """What a federation file says of it."""
        return cls(
            name=domain.name,
            location=domain.location,
            failure_probability=domain.failure_probability,
            address=domain.address,
            base_port=domain.base_port,
            hosts=tuple((host.name, host.address) for host in domain.hosts),
            gateways=domain.gateways,
        )

    def applied_to(self, known: Domain | None) -> Domain:
        """The domain as it is agreed on; what is private to it as the file has it, if it does."""
        hosts = {} if known is None else {host.name: host for host in known.hosts}
        agreed = tuple(
            msgspec.structs.replace(hosts[name], address=address)
            if name in hosts
            else Host(name=name, address=address, brokers=("head",) if place == 0 else ())
            for place, (name, address) in enumerate(self.hosts)
        )
        return msgspec.structs.replace(
            known or Domain(name=self.name, base_port=self.base_port),
            location=self.location,
            failure_probability=self.failure_probability,
            address=self.address,
            base_port=self.base_port,
            hosts=agreed,
            gateways=self.gateways,
        )


class AgreedLink(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A link, as `Link` has it; written short."""

    between: tuple[Name, Name]
    delay_ms: float | None = None
    jitter_ms: float = 0.0
    bandwidth_mbps: float | None = None
    loss_ratio: float = 0.0
    failure_probability: float | None = None
    via: tuple[tuple[float, float], ...] = ()
    endpoints: dict[str, str] = {}

    @classmethod
    def of(cls, link: Link) -> AgreedLink:
        """What a federation file says of it."""
        return cls(**msgspec.structs.asdict(link))

    def link(self) -> Link:
        """The link."""
        return Link(**msgspec.structs.asdict(self))


class Network(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All that gateways must agree on besides contracts."""

    sites: tuple[AgreedSite, ...]
    links: tuple[AgreedLink, ...] = ()
    max_message_bytes: int
    prepare: Prepare = Prepare.SINGLES
    risk_groups: dict[str, RiskGroup] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The members."""
        return tuple(site.name for site in self.sites)

    @property
    def pairs(self) -> frozenset[SitePair]:
        """The links by their ends."""
        return frozenset(each.link().pair for each in self.links)

    def without(self, *domains: str) -> Network:
        """The same without some domains and all that ends there."""
        gone = set(domains)
        links = tuple(each for each in self.links if not gone & set(each.between))
        groups = {
            name: RiskGroup(
                links=tuple(pair for pair in group.links if not gone & set(pair)),
                sites=tuple(site for site in group.sites if site not in gone),
            )
            for name, group in self.risk_groups.items()
        }
        return msgspec.structs.replace(
            self,
            sites=tuple(site for site in self.sites if site.name not in gone),
            links=links,
            risk_groups={name: group for name, group in groups.items() if group.links or group.sites},
        )

    def parts(self) -> list[frozenset[str]]:
        """The sets of domains that links connect, the largest first."""
        left, found = set(self.names), []
        while left:
            start = min(left)
            reached, at_hand = {start}, [start]
            while at_hand:
                here = at_hand.pop()
                for each in self.links:
                    if here in each.between:
                        there = each.between[1] if each.between[0] == here else each.between[0]
                        if there not in reached:
                            reached.add(there)
                            at_hand.append(there)
            left -= reached
            found.append(frozenset(reached))
        return sorted(found, key=lambda part: (-len(part), min(part)))


def network_of(federation: Federation) -> Network:
    """What a federation says that all gateways must agree on."""
    return Network(
        sites=tuple(AgreedSite.of(federation.domains[name]) for name in sorted(federation.domains)),
        links=tuple(AgreedLink.of(link) for link in sorted(federation.links, key=lambda link: link.pair)),
        max_message_bytes=federation.max_message_bytes,
        prepare=federation.prepare,
        risk_groups=dict(sorted(federation.risk_groups.items())),
    )


def with_network(federation: Federation, network: Network) -> Federation:
    """A site's federation with the domains and links that are agreed on in place of those of its file."""
    return msgspec.structs.replace(
        federation,
        domains={site.name: site.applied_to(federation.domains.get(site.name)) for site in network.sites},
        links=tuple(each.link() for each in network.links),
        max_message_bytes=network.max_message_bytes,
        prepare=network.prepare,
        risk_groups=network.risk_groups,
    )


# -- numbers ----------------------------------------------------------------------------------------------


def is_retired(name: str) -> bool:
    """Whether a place in the order of domains is that of one which has left."""
    return RETIRED in name


def members(order: Iterable[str]) -> tuple[str, ...]:
    """The domains of an order that have not left."""
    return tuple(name for name in order if not is_retired(name))


def renumbered(order: Sequence[str], names: Iterable[str]) -> tuple[str, ...]:
    """The order in which these are the members: who stays keeps its number, who is new gets another."""
    wanted = set(names)
    kept = [
        name if name in wanted or is_retired(name) else f"{name}{RETIRED}{number}"
        for number, name in enumerate(order)
    ]
    after = (*kept, *sorted(wanted - set(order)))
    if len(after) > MAX_NUMBERS:
        raise InputError(
            f"so many domains have joined and left that no number is left (of {MAX_NUMBERS})",
            hint=LEFT_REMEDY,
        )
    return after


def numbers_problem(after: Sequence[str], before: Sequence[str], names: Sequence[str]) -> str:
    """Why an order of domains cannot follow another one; empty if it can."""
    if len(after) < len(before) or len(after) > MAX_NUMBERS:
        return "it numbers domains anew, or too many"
    for number, (old, new) in enumerate(zip(before, after, strict=False)):
        if new != old and (is_retired(old) or new != f"{old}{RETIRED}{number}"):
            return f"it gives the number {number} of {old} another meaning"
    if any(is_retired(name) for name in after[len(before) :]):
        return "a domain has left that was never there"
    if sorted(members(after)) != sorted(names) or len(set(after)) < len(after):
        return "its domains and their numbers do not match"
    return ""


# -- checks -----------------------------------------------------------------------------------------------


def network_problems(network: Network) -> Iterator[str]:
    """By what a network would harm a gateway, whoever has signed it."""
    names = set(network.names)
    if len(names) < len(network.sites) or not names:
        yield "a domain is named twice, or there is none"
    if len(network.links) > MAX_LINKS or len(network.pairs) < len(network.links):
        yield "a link is named twice, or there are too many"
    for site in network.sites:
        yield from _site_problems(site)
    for link in network.links:
        where = f"the link between {link.between[0]} and {link.between[1]}"
        if link.between[0] == link.between[1] or not names.issuperset(link.between):
            yield f"{where} does not lead from one domain to another"
        for value in (link.delay_ms, link.bandwidth_mbps, link.failure_probability, link.jitter_ms):
            if value is not None and not (isfinite(value) and value >= 0):
                yield f"{where}: {value} is no figure of a link"
        try:
            for end in link.between:
                link.link().endpoint(end)
        except AddressError as error:
            yield f"{where}: {error.message}"
    for name, group in network.risk_groups.items():
        if not network.pairs.issuperset(group.links) or not names.issuperset(group.sites):
            yield f"risk group {name!r} names a link or a site that is not there"
    if not 1 <= network.max_message_bytes <= 64 << 20:
        yield f"max_message_bytes is {network.max_message_bytes}"


def _site_problems(site: AgreedSite) -> Iterator[str]:
    if is_retired(site.name):
        yield f"{site.name!r} is no name of a domain"
    if not 1 <= site.gateways <= 2 or not 0 <= site.base_port <= 65_000:
        yield f"{site.name}: gateways or base_port are beyond the limits"
    if site.location is not None and not all(map(isfinite, site.location)):
        yield f"{site.name}: its location is nowhere"


def cut_off(network: Network, before: Network) -> tuple[str, ...]:
    """Domains to which no way would lead any more from the largest part of the network, and one does now."""
    parts = network.parts()
    largest = max(parts, key=lambda part: (len(part & set(before.names)), -len(part)), default=frozenset())
    return tuple(sorted(set(network.names) - largest))


# -- what differs -----------------------------------------------------------------------------------------


class NetworkDifference(msgspec.Struct, frozen=True, kw_only=True):
    """What one network has otherwise than another."""

    joined: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    links_added: tuple[SitePair, ...] = ()
    links_removed: tuple[SitePair, ...] = ()
    changed: tuple[str, ...] = ()
    """Of domains and links that stay: what changes."""

    def __bool__(self) -> bool:
        return bool(self.joined or self.left or self.links_added or self.links_removed or self.changed)

    def sentences(self) -> Iterator[str]:
        """For people."""
        yield from (f"domain {name} joins" for name in self.joined)
        yield from (f"domain {name} leaves" for name in self.left)
        yield from (f"new link between {first} and {second}" for first, second in self.links_added)
        yield from (f"the link between {first} and {second} ends" for first, second in self.links_removed)
        yield from self.changed

    def summary(self) -> str:
        """In a few words."""
        parts = [f"{name} joins" for name in self.joined] + [f"{name} leaves" for name in self.left]
        for links, word in ((self.links_added, "new"), (self.links_removed, "removed")):
            if links:
                parts.append(f"{len(links)} {word} link{'s' if len(links) > 1 else ''}")
        if self.changed:
            parts.append(f"{len(self.changed)} changed")
        return f"network: {', '.join(parts)}"


def network_difference(before: Network, after: Network) -> NetworkDifference:
    """What changes from one network to another."""
    old_sites, new_sites = ({site.name: site for site in each.sites} for each in (before, after))
    old_links, new_links = ({each.link().pair: each for each in net.links} for net in (before, after))
    changed = [
        f"domain {name}: {_changes(old_sites[name], new_sites[name])}"
        for name in old_sites
        if name in new_sites and old_sites[name] != new_sites[name]
    ]
    changed += [
        f"link between {pair[0]} and {pair[1]}: {_changes(old_links[pair], new_links[pair])}"
        for pair in old_links
        if pair in new_links and old_links[pair] != new_links[pair]
    ]
    for key in ("max_message_bytes", "prepare"):
        if getattr(before, key) != getattr(after, key):
            changed.append(f"{key}: {getattr(before, key)} → {getattr(after, key)}")
    if before.risk_groups != after.risk_groups:
        changed.append("other risk groups")
    return NetworkDifference(
        joined=tuple(name for name in new_sites if name not in old_sites),
        left=tuple(name for name in old_sites if name not in new_sites),
        links_added=tuple(pair for pair in new_links if pair not in old_links),
        links_removed=tuple(pair for pair in old_links if pair not in new_links),
        changed=tuple(changed),
    )


def _changes(old: msgspec.Struct, new: msgspec.Struct) -> str:
    before, after = msgspec.structs.asdict(old), msgspec.structs.asdict(new)
    return ", ".join(f"{key} {before[key]} → {after[key]}" for key in after if before[key] != after[key])


def gateway_addresses(federation: Federation, link: Link, domain: str) -> tuple[tuple[str, int], ...]:
    """Where the gateways of one end of a link listen for it."""
    first, *second = fixed_endpoints(federation.domains[domain]).gateways
    return (link.endpoint(domain) or first, *second)
