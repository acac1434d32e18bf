"""Configuration of the brokers that carry control traffic."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mangrove.broker.nats.configuration.management_permissions import management_users
from mangrove.broker.nats.configuration.syntax import common, listen, listing, quoted
from mangrove.broker.nats.configuration.tls import NEWEST_ONLY, listener_tls, route_tls
from mangrove.broker.nats.configuration.users import users_block
from mangrove.broker.security import BrokerSecurity
from mangrove.host.run_directory import RunDirectory
from mangrove.model.address import Address
from mangrove.model.endpoints import BrokerEndpoints

MEMORY = "64MB"
DISK = "2GB"
# Plans of thousands of topics, with cases, are told in one message.
MESSAGE_BYTES = 8 << 20
# A member of the management cluster that does not answer for two seconds is left.
ROUTE_PING = "500ms"
ROUTE_PINGS = 3


def management_broker_config(
    endpoints: BrokerEndpoints,
    directory: Path,
    cluster: Sequence[BrokerEndpoints] = (),
    security: BrokerSecurity | None = None,
) -> str:
    """Configuration of a management broker: JetStream for coordination, no data listeners.

    Several form a `cluster`, named after its first member, that survives the loss of a minority. With
    `security`, only its users come in, each to the subjects that it needs.
    """
    sections = [
        common(endpoints, directory, MESSAGE_BYTES),
        f"jetstream {{ store_dir: {quoted(RunDirectory(directory).broker_store(endpoints.name))}, "
        f"max_memory_store: {MEMORY}, max_file_store: {DISK} }}",
    ]
    if security is not None:
        users = users_block(management_users(security))
        sections += [listener_tls(security, min_version=NEWEST_ONLY), f"authorization {{ {users} }}"]
    if endpoints.route_port is not None:
        routes = [
            f"nats-route://{Address(other.host, other.route_port)}"
            for other in cluster
            if other.route_port is not None and other.name != endpoints.name
        ]
        parts = [
            f"name: {quoted(cluster[0].name)}",
            f"listen: {listen(endpoints.host, endpoints.route_port)}",
            f"routes: {listing(routes)}",
            f'ping_interval: "{ROUTE_PING}"',
            f"ping_max: {ROUTE_PINGS}",
        ]
        if security is not None:
            parts.append(route_tls(security))
        sections.append(f"cluster {{ {', '.join(parts)} }}")
    return "\n".join([*sections, ""])
