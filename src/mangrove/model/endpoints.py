"""Where the processes of a federation listen: every address resolved, ready to be handed to a process."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from mangrove.model.federation import Domain, Federation

# Offsets from a domain's base port. A domain takes EDGE_OFFSET + EDGE_STRIDE × edges ports.
HEAD_CLIENT, HEAD_MQTT, HEAD_MONITOR, HEAD_LEAF, MGMT_CLIENT, MGMT_MONITOR, GATEWAY = range(7)
EDGE_OFFSET = 10
EDGE_STRIDE = 3
EDGE_CLIENT, EDGE_MQTT, EDGE_MONITOR = range(3)


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

    @property
    def client_url(self) -> str:
        """URL for NATS clients."""
        return f"nats://{self.user_info}{bracketed(self.host)}:{self.client_port}"

    @property
    def leaf_url(self) -> str:
        """URL for leaf nodes, which is how gateways attach."""
        return f"nats-leaf://{self.user_info}{bracketed(self.host)}:{self.leaf_port}"

    @property
    def monitor_url(self) -> str | None:
        """Base URL of the monitoring pages."""
        return None if self.monitor_port is None else f"http://{bracketed(self.host)}:{self.monitor_port}"


class DomainEndpoints(msgspec.Struct, frozen=True, kw_only=True):
    """Where everything of one domain listens."""

    domain: str
    head: BrokerEndpoints
    edges: tuple[BrokerEndpoints, ...]
    management: BrokerEndpoints
    gateway_host: str
    gateway_port: int

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


def ports_taken(domain: Domain) -> int:
    """How many ports from its base port a domain may use."""
    return EDGE_OFFSET + EDGE_STRIDE * len(domain.edges)


def bracketed(host: str) -> str:
    """An IPv6 address in brackets, as URLs want it; any other host as it is."""
    return f"[{host}]" if ":" in host else host
