"""Where the processes of a federation listen: every address resolved, ready to be handed to a process."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator, Mapping
from urllib.parse import urlsplit

import msgspec

from mangrove.model.address import Address
from mangrove.model.broker_kinds import BROKER_URLS, BrokerKind
from mangrove.model.federation import Domain, External, Federation, Host

# Offsets from a domain's base port: each of its own, so that hosts may share an address.
HEAD_CLIENT, HEAD_MQTT, HEAD_MONITOR, HEAD_LEAF, MGMT_CLIENT, MGMT_MONITOR, GATEWAY = range(7)
SECOND_GATEWAY, MGMT_ROUTE, GATEWAY_LINE = 7, 8, 9
# A RabbitMQ has no leaf nodes, and its domain no second gateway.
HEAD_MANAGEMENT, HEAD_STOMP = HEAD_LEAF, SECOND_GATEWAY
EDGE_OFFSET = 10
EDGE_STRIDE = 4
EDGE_CLIENT, EDGE_MQTT, EDGE_MONITOR, EDGE_LEAF = range(4)
LOCAL = "127.0.0.1"
# Further management brokers come after the edges, and only where there are hosts for them.
MANAGEMENT_CLUSTER = 3
MEMBER_STRIDE = 3
MEMBER_CLIENT, MEMBER_MONITOR, MEMBER_ROUTE = range(3)


def management_brokers(hosts: int) -> int:
    """How many management brokers a domain has: one that dies must leave a majority, which takes three."""
    return MANAGEMENT_CLUSTER if hosts >= MANAGEMENT_CLUSTER else 1


def port_span(edge_slots: int, hosts: int = 1) -> int:
    """How many ports a domain takes from its base port on."""
    return EDGE_OFFSET + EDGE_STRIDE * edge_slots + MEMBER_STRIDE * (management_brokers(hosts) - 1)


class PortsBehind(msgspec.Struct, frozen=True, kw_only=True):
    """Where a broker itself listens whose line is emulated: others connect to the emulator in front of it."""

    client_port: int
    mqtt_port: int | None = None
    leaf_port: int | None = None
    uplink_ports: tuple[int, ...] = ()
    """Where the emulator takes the broker's own connections to the brokers before it, in their order."""


class BrokerEndpoints(msgspec.Struct, frozen=True, kw_only=True):
    """Where one broker listens. A port of None is not offered (or, for an external broker, not known)."""

    name: str
    host: str
    client_port: int
    monitor_port: int | None = None
    monitor_host: str = ""
    """Where its pages are to be looked at, if elsewhere than its clients connect: a broker that lets nobody
    in without a key shows them to its own machine alone."""
    mqtt_port: int | None = None
    leaf_port: int | None = None
    route_port: int | None = None
    """Where the other members of its cluster reach it."""
    stomp_port: int | None = None
    management_port: int | None = None
    """Where a gateway asks what AMQP cannot tell."""
    encrypted: bool = False
    """Whether clients speak TLS from the first byte on, which some kinds say in their URLs."""
    external: bool = False
    user_info: str = ""
    kind: BrokerKind = BrokerKind.NATS
    behind: PortsBehind | None = None
    """None: it listens there itself."""
    machine: str = ""
    """The host of the federation file on which it runs; empty where the file names none."""

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
        scheme = BROKER_URLS[self.kind].scheme_of(encrypted=self.encrypted)
        return f"{scheme}://{self.user_info}{self._at(self.client_port)}"

    @property
    def leaf_url(self) -> str:
        """URL where gateways and edge brokers attach, in NATS as leaf nodes."""
        if self.management_port is not None:
            scheme = "https" if self.encrypted else "http"
            where = Address(self.monitor_host or self.host, self.management_port)
            return f"{self.client_url}/?management={scheme}://{where}"
        return f"{BROKER_URLS[self.kind].attach_scheme}://{self.user_info}{self._at(self.leaf_port or 0)}"

    @property
    def mqtt_address(self) -> Address | None:
        """Where MQTT clients come."""
        return None if self.mqtt_port is None else self._at(self.mqtt_port)

    def _at(self, port: int) -> Address:
        return Address(self.host, port)

    @property
    def monitor_url(self) -> str | None:
        """Base URL of the monitoring pages."""
        if self.monitor_port is None:
            return None
        return f"http://{Address(self.monitor_host or self.host, self.monitor_port)}"


class DomainEndpoints(msgspec.Struct, frozen=True, kw_only=True):
    """Where everything of one domain listens."""

    domain: str
    head: BrokerEndpoints
    edges: tuple[BrokerEndpoints, ...]
    managements: tuple[BrokerEndpoints, ...]
    gateways: tuple[Address, ...]
    """Where the gateway listens for its neighbours, and where the one that stands by does."""
    gateway_line: Address | None = None
    """Where the first of two gateways listens for the second."""
    spares: tuple[BrokerEndpoints, ...] = ()
    """Edges that do not run until they are needed; they come after the others in the succession."""
    keys: str = ""
    """Where on this machine the keys are by which one logs in; empty: the brokers let anybody in."""

    @property
    def management(self) -> BrokerEndpoints:
        """The first management broker."""
        return self.managements[0]

    @property
    def gateway(self) -> Address:
        """Where the first gateway listens for its neighbours."""
        return self.gateways[0]

    @property
    def succession(self) -> tuple[BrokerEndpoints, ...]:
        """Data brokers, in the order in which they are head: each attaches to the first living one before it.

        So whatever dies or returns, those that live form one tree
        (docs/decisions/0060-each-broker-attaches-to-an-earlier-one.md).
        """
        return (self.head, *self.edges, *self.spares)

    @property
    def on_several_hosts(self) -> bool:
        """Whether a host may be lost while others go on."""
        return len({broker.machine for broker in (*self.succession, *self.managements)}) > 1

    def brokers(self) -> Iterator[BrokerEndpoints]:
        """Head, edges and management brokers."""
        yield self.head
        yield from self.edges
        yield from self.managements


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
    keys: str = ""
    """The key directory; empty: nobody proves who it is."""


def lay_out(domain: Domain, port_at: Callable[[int], int]) -> DomainEndpoints:
    """Where everything of a domain listens, with `port_at(offset)` as the port for each offset."""
    hosts = domain.all_hosts
    machines = {broker: host for host in hosts for broker in host.brokers}
    if domain.external is None and domain.kind is BrokerKind.RABBITMQ:
        head = BrokerEndpoints(
            name=f"{domain.name}-head",
            host=machines["head"].address,
            kind=domain.kind,
            client_port=port_at(HEAD_CLIENT),
            mqtt_port=port_at(HEAD_MQTT),
            monitor_port=port_at(HEAD_MONITOR),
            management_port=port_at(HEAD_MANAGEMENT),
            stomp_port=port_at(HEAD_STOMP),
            machine=machines["head"].name,
        )
    elif domain.external is None:
        head = BrokerEndpoints(
            name=f"{domain.name}-head",
            host=machines["head"].address,
            client_port=port_at(HEAD_CLIENT),
            mqtt_port=port_at(HEAD_MQTT),
            monitor_port=port_at(HEAD_MONITOR),
            leaf_port=port_at(HEAD_LEAF),
            machine=machines["head"].name,
        )
    else:
        head = _external_head(domain, domain.external)
    edges = [_edge(domain, number, machines, port_at) for number in range(domain.edge_slots)]
    edges, spares = edges[: len(domain.edges)], edges[len(domain.edges) :]
    if domain.external is not None:
        edges += [
            _external_broker(f"{domain.name}-edge{number + 1}", url, domain.external.kind)
            for number, url in enumerate(domain.external.edges)
        ]
    return DomainEndpoints(
        domain=domain.name,
        head=head,
        edges=tuple(edges),
        spares=tuple(spares),
        managements=_managements(domain, hosts, port_at),
        gateways=tuple(
            Address(hosts[number % len(hosts)].address, port_at((GATEWAY, SECOND_GATEWAY)[number]))
            for number in range(domain.gateways)
        ),
        gateway_line=Address(hosts[0].address, port_at(GATEWAY_LINE)) if domain.gateways > 1 else None,
    )


def _edge(
    domain: Domain, number: int, machines: Mapping[str, Host], port_at: Callable[[int], int]
) -> BrokerEndpoints:
    first = EDGE_OFFSET + EDGE_STRIDE * number
    host = machines[f"edge{number + 1}"]
    return BrokerEndpoints(
        name=f"{domain.name}-edge{number + 1}",
        host=host.address,
        client_port=port_at(first + EDGE_CLIENT),
        mqtt_port=port_at(first + EDGE_MQTT),
        monitor_port=port_at(first + EDGE_MONITOR),
        leaf_port=port_at(first + EDGE_LEAF),
        machine=host.name,
    )


def _managements(
    domain: Domain, hosts: tuple[Host, ...], port_at: Callable[[int], int]
) -> tuple[BrokerEndpoints, ...]:
    count = management_brokers(len(hosts))
    after_edges = EDGE_OFFSET + EDGE_STRIDE * domain.edge_slots
    found = []
    for number, host in enumerate(hosts[:count]):
        first = after_edges + MEMBER_STRIDE * (number - 1)
        client, monitor, route = (
            (MGMT_CLIENT, MGMT_MONITOR, MGMT_ROUTE)
            if number == 0
            else (first + MEMBER_CLIENT, first + MEMBER_MONITOR, first + MEMBER_ROUTE)
        )
        found.append(
            BrokerEndpoints(
                name=f"{domain.name}-management" + (str(number + 1) if number else ""),
                host=host.address,
                client_port=port_at(client),
                monitor_port=port_at(monitor),
                route_port=port_at(route) if count > 1 else None,
                machine=host.name,
            )
        )
    return tuple(found)


def shown_locally(endpoints: DomainEndpoints) -> DomainEndpoints:
    """The same, with the pages of brokers of ours at addresses of their own machine alone.

    One that listens at such an address anyway shows them there, so that sites at several do not get in each
    other's way.
    """

    def local(broker: BrokerEndpoints) -> BrokerEndpoints:
        if broker.external or broker.monitor_port is None:
            return broker
        host = broker.host if _is_loopback(broker.host) else LOCAL
        return msgspec.structs.replace(broker, monitor_host=host, encrypted=True)

    return msgspec.structs.replace(
        endpoints,
        head=local(endpoints.head),
        edges=tuple(map(local, endpoints.edges)),
        spares=tuple(map(local, endpoints.spares)),
        managements=tuple(map(local, endpoints.managements)),
    )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


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
        encrypted=parts.scheme == BROKER_URLS[kind].encrypted_scheme,
        user_info=parts.netloc.rpartition("@")[0] + "@" if "@" in parts.netloc else "",
    )


def _external_head(domain: Domain, external: External) -> BrokerEndpoints:
    broker = _external_broker(f"{domain.name}-head", external.head, external.kind)
    monitor = urlsplit(external.monitor).port if external.monitor else None
    return msgspec.structs.replace(broker, leaf_port=urlsplit(external.leaf).port, monitor_port=monitor)
