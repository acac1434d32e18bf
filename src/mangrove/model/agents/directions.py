"""What a client that knows one broker of a domain learns of all of it, from one question at that broker."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

import msgspec

from mangrove.model.address import Address
from mangrove.model.broker_kinds import BROKER_URLS, BrokerKind
from mangrove.model.congestion.rate_limit import Limits
from mangrove.model.congestion.terms import TopicTerms
from mangrove.model.endpoints import BrokerEndpoints, DomainEndpoints
from mangrove.model.federation import Federation
from mangrove.model.names.local_view import local_rules

DIRECTIONS_SUBJECT = "_MGR._WHERE"
"""Asked on any data broker; the domain's own gateway answers. It never leaves the domain."""


class BrokerDirection(msgspec.Struct, frozen=True, kw_only=True):
    """Where clients reach one broker."""

    name: str
    url: str


class Directions(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a client needs to know of its domain. No URL holds a password."""

    federation: str
    domain: str
    head: BrokerDirection
    edges: tuple[BrokerDirection, ...] = ()
    succession: bool = False
    """Whether edges take over from the head, in their order."""
    management_url: str = ""
    """The first of `management_urls`."""
    management_urls: tuple[str, ...] = ()
    placement: str = "lan"
    terms: tuple[TopicTerms, ...] = ()
    """Of contracts, in the order in which the first that matches counts."""
    client_limits: Limits = Limits()
    selectors: bool = False
    """Whether the gateway understands queue groups that stand for selectors."""

    @property
    def head_urls(self) -> tuple[str, ...]:
        """Where to publish: at the first of these that is there."""
        return (self.head.url, *(edge.url for edge in self.edges if self.succession))

    def seen_from(self, url: str) -> Directions:
        """The same for a client that asked at this URL.

        A site that listens on all its addresses, and gives no other, cannot say which of them a client
        reaches; the one that the client has just reached will do. The broker that was asked keeps the URL
        that the client has, which may hold its password; no other broker gets to see that.
        """
        asked = urlsplit(url)

        def reached(text: str) -> str:
            try:
                parts = urlsplit(text)
                host, port = parts.hostname or "", parts.port
            except ValueError:  # no URL; whoever connects to it will say so
                return text
            if asked.hostname and port and _is_wildcard(host):
                host = asked.hostname
                text = f"{parts.scheme}://{Address(host, port)}"
            return url if (host, port) == (asked.hostname, asked.port) else text

        def moved(broker: BrokerDirection) -> BrokerDirection:
            return msgspec.structs.replace(broker, url=reached(broker.url))

        return msgspec.structs.replace(
            self,
            head=moved(self.head),
            edges=tuple(map(moved, self.edges)),
            management_url=reached(self.management_url),
            management_urls=tuple(map(reached, self.management_urls)),
        )


def directions_of(federation: Federation, endpoints: DomainEndpoints) -> Directions:
    """What the clients of a domain are told.

    Where brokers listen on all addresses of their machine, the domain's address for its neighbours is given,
    if it has one.
    """
    domain = federation.domains[endpoints.domain]
    own = [link.endpoint(domain.name) for link in federation.links_of(domain.name)]
    hosts = [domain.address, *(address.host for address in own if address is not None)]
    public = next((host for host in hosts if not _is_wildcard(host)), "")

    def url(broker: BrokerEndpoints) -> str:
        host = public if public and _is_wildcard(broker.host) else broker.host
        scheme = BROKER_URLS[broker.kind].scheme_of(encrypted=broker.encrypted)
        return f"{scheme}://{Address(host, broker.client_port)}"

    def direction(broker: BrokerEndpoints) -> BrokerDirection:
        return BrokerDirection(name=broker.name, url=url(broker))

    return Directions(
        federation=federation.name,
        domain=domain.name,
        head=direction(endpoints.head),
        edges=tuple(map(direction, (*endpoints.edges, *endpoints.spares))),
        succession=not endpoints.head.external,
        management_url=url(endpoints.management),
        management_urls=tuple(map(url, endpoints.managements)),
        placement=domain.placement.value,
        terms=local_rules(federation, domain.name).terms(),
        client_limits=federation.limits.client,
        selectors=endpoints.head.kind is BrokerKind.NATS,
    )


def _is_wildcard(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
