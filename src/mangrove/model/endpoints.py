"""Where the processes of a federation listen: every address resolved, ready to be handed to a process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import msgspec

from mangrove.model.address import Address
from mangrove.model.broker_kinds import BROKER_URLS, BrokerKind
from mangrove.model.federation import Domain, External, Federation

# Offsets from a domain's base port. A domain takes EDGE_OFFSET + EDGE_STRIDE × edges ports.
HEAD_CLIENT, HEAD_MQTT, HEAD_MONITOR, HEAD_LEAF, MGMT_CLIENT, MGMT_MONITOR, GATEWAY = range(7)
EDGE_OFFSET = 10
EDGE_STRIDE = 3
EDGE_CLIENT, EDGE_MQTT, EDGE_MONITOR = range(3)


class PortsBehind(msgspec.Struct, frozen=True, kw_only=True):
    """Where a broker itself listens whose line is emulated: others connect to the emulator in front of it."""

    client_port: int
    mqtt_port: int | None = None
    leaf_port: int | None = None
    uplink_port: int | None = None
    """Where the emulator takes the broker's own connection to its head."""


class BrokerEndpoints(msgspec.Struct, frozen=True, kw_only=True):
    """Where one broker listens. A port of None is not offered (or, for an external broker, not known)."""

    name: str
    host: str
    client_port: int
    monitor_port: int | None = None
    mqtt_port: int | None = None
    leaf_port: int | None = None
    external: bool = False
    user_info: str = ""
    kind: BrokerKind = BrokerKind.NATS
    behind: PortsBehind | None = None
    """None: it listens there itself."""
    machine: str = ""
    """The host of the federation file on which it runs; empty where a domain has but one."""

    @property
    def itself(self) -> BrokerEndpoints:
        """The broker without an emulator in front of it: for its own settings, and for its agent."""
        if self.behind is None:
            return self
        return msgspec.structs.replace(
            self,
            client_port=self.behind.client_port,
            mqtt_port=self.behind.mqtt_port,
            leaf_port=self.behind.leaf_port,
            behind=None,
        )

    @property
    def client_url(self) -> str:
        """URL for clients."""
        return f"{BROKER_URLS[self.kind].client_scheme}://{self.user_info}{self._at(self.client_port)}"

    @property
    def leaf_url(self) -> str:
        """URL where gateways and edge brokers attach, in NATS as leaf nodes."""
        return f"{BROKER_URLS[self.kind].attach_scheme}://{self.user_info}{self._at(self.leaf_port or 0)}"

    def _at(self, port: int) -> Address:
        return Address(self.host, port)

    @property
    def monitor_url(self) -> str | None:
        """Base URL of the monitoring pages."""
        return None if self.monitor_port is None else f"http://{Address(self.host, self.monitor_port)}"


class DomainEndpoints(msgspec.Struct, frozen=True, kw_only=True):
    """Where everything of one domain listens."""

    domain: str
    head: BrokerEndpoints
    edges: tuple[BrokerEndpoints, ...]
    management: BrokerEndpoints
    gateway_host: str
    gateway_port: int

    @property
    def gateway(self) -> Address:
        """Where the gateway listens for its neighbours."""
        return Address(self.gateway_host, self.gateway_port)

    def brokers(self) -> Iterator[BrokerEndpoints]:
        """Head, edges and management broker."""
        yield self.head
        yield from self.edges
        yield self.management


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    """A running federation, as `mangrove up` writes it for the commands that look at it."""

    federation: Federation
    domains: dict[str, DomainEndpoints]
    pid: int
    wan_control: Address | None = None
    lines_control: Address | None = None
    """Where the emulator of brokers' lines is told of changes, if there is one."""
    agents: bool = False
    """Whether the domains have agents."""


def lay_out(domain: Domain, port_at: Callable[[int], int]) -> DomainEndpoints:
    """Where everything of a domain listens, with `port_at(offset)` as the port for each offset."""
    host = domain.address
    if domain.external is None:
        head = BrokerEndpoints(
            name=f"{domain.name}-head",
            host=host,
            client_port=port_at(HEAD_CLIENT),
            mqtt_port=port_at(HEAD_MQTT),
            monitor_port=port_at(HEAD_MONITOR),
            leaf_port=port_at(HEAD_LEAF),
        )
    else:
        head = _external_head(domain, domain.external)
    edges = [
        BrokerEndpoints(
            name=f"{domain.name}-edge{number + 1}",
            host=host,
            client_port=port_at(EDGE_OFFSET + EDGE_STRIDE * number + EDGE_CLIENT),
            mqtt_port=port_at(EDGE_OFFSET + EDGE_STRIDE * number + EDGE_MQTT),
            monitor_port=port_at(EDGE_OFFSET + EDGE_STRIDE * number + EDGE_MONITOR),
        )
        for number in range(len(domain.edges))
    ]
    if domain.external is not None:
        edges += [
            _external_broker(f"{domain.name}-edge{number + 1}", url, domain.external.kind)
            for number, url in enumerate(domain.external.edges)
        ]
    return DomainEndpoints(
        domain=domain.name,
        head=head,
        edges=tuple(edges),
        management=BrokerEndpoints(
            name=f"{domain.name}-management",
            host=host,
            client_port=port_at(MGMT_CLIENT),
            monitor_port=port_at(MGMT_MONITOR),
        ),
        gateway_host=host,
        gateway_port=port_at(GATEWAY),
    )


def fixed_endpoints(domain: Domain) -> DomainEndpoints:
    """The endpoints that follow from the domain's base port."""
    return lay_out(domain, lambda offset: domain.base_port + offset)


def _external_broker(name: str, url: str, kind: BrokerKind) -> BrokerEndpoints:
    parts = urlsplit(url)
    return BrokerEndpoints(
        name=name,
        host=parts.hostname or "",
        client_port=parts.port or 0,
        external=True,
        kind=kind,
        user_info=parts.netloc.rpartition("@")[0] + "@" if "@" in parts.netloc else "",
    )


def _external_head(domain: Domain, external: External) -> BrokerEndpoints:
    broker = _external_broker(f"{domain.name}-head", external.head, external.kind)
    monitor = urlsplit(external.monitor).port if external.monitor else None
    return msgspec.structs.replace(broker, leaf_port=urlsplit(external.leaf).port, monitor_port=monitor)
