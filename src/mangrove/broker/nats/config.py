"""nats-server configuration files, rendered from values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mangrove.host.run_directory import RunDirectory
from mangrove.model.address import Address
from mangrove.model.agents.credentials import Credentials
from mangrove.model.endpoints import BrokerEndpoints
from mangrove.model.shared_names import MIRROR_PREFIX

# MQTT keeps its sessions in JetStream; these bounds are ample for that and keep a broker from filling a disk.
SESSION_MEMORY = "64MB"
SESSION_DISK = "1GB"
MANAGEMENT_MEMORY = "64MB"
MANAGEMENT_DISK = "2GB"
# Plans of thousands of topics, with cases, are told in one message.
MANAGEMENT_MESSAGE_BYTES = 8 << 20
LOG_SIZE = "32MB"
# What an edge asks its head for MQTT clients while they are apart is lost, and who asked waits 5 s in vain.
RECONNECT = "50ms"
RECONNECTS_FOR_A_REPORT = 100
# A member of the management cluster that does not answer for two seconds is left.
ROUTE_PING = "500ms"
ROUTE_PINGS = 3


def data_broker_config(
    endpoints: BrokerEndpoints,
    directory: Path,
    *,
    max_message_bytes: int,
    jetstream_domain: str,
    attach_to: Sequence[str] = (),
    own_jetstream: bool = True,
    system_user: Credentials | None = None,
) -> str:
    """Configuration of a head broker, or of an edge broker that is a leaf node of one of `attach_to`.

    It attaches to the first of them that lives, to another when that dies, and to no address that it is
    told on the way; and mirror copies stay where they are
    (docs/decisions/0060-each-broker-attaches-to-an-earlier-one.md).

    The MQTT sessions and messages of a broker are kept in `jetstream_domain`: by itself, or, without
    `own_jetstream`, by the head (docs/decisions/0010-one-jetstream-domain-for-each-site.md). The
    `system_user` may ask for statistics; all others go on without a name
    (docs/decisions/0032-agents-watch-by-the-system-account.md).
    """
    sections = [_common(endpoints, directory, max_message_bytes)]
    if own_jetstream:
        sections.append(
            f"jetstream {{ store_dir: {_quoted(RunDirectory(directory).broker_store(jetstream_domain))}, "
            f"domain: {_quoted(jetstream_domain)}, "
            f"max_memory_store: {SESSION_MEMORY}, max_file_store: {SESSION_DISK} }}",
        )
    if endpoints.mqtt_port is not None:
        sections.append(
            f"mqtt {{ listen: {_listen(endpoints.host, endpoints.mqtt_port)}, "
            f"js_domain: {_quoted(jetstream_domain)} }}"
        )
    leaf_nodes = []
    if endpoints.leaf_port is not None:
        leaf_nodes.append(f"listen: {_listen(endpoints.host, endpoints.leaf_port)}")
    if attach_to:
        denied = f"[ {_quoted(MIRROR_PREFIX + '>')} ]"
        leaf_nodes += [
            f'reconnect: "{RECONNECT}"',
            f"remotes: [ {{ urls: [ {', '.join(map(_quoted, attach_to))} ], no_randomize: true, "
            f"ignore_discovered_servers: true, deny_imports: {denied}, deny_exports: {denied} }} ]",
        ]
        sections.append(f"reconnect_error_reports: {RECONNECTS_FOR_A_REPORT}")
    if leaf_nodes:
        sections.append(f"leafnodes {{ {', '.join(leaf_nodes)} }}")
    if system_user is not None:
        user = f"{{ user: {_quoted(system_user.user)}, password: {_quoted(system_user.password)} }}"
        sections.append(f"accounts {{ $SYS {{ users: [ {user} ] }} }}")
    return "\n".join(sections) + "\n"


def management_broker_config(
    endpoints: BrokerEndpoints, directory: Path, cluster: Sequence[BrokerEndpoints] = ()
) -> str:
    """Configuration of a management broker: JetStream for coordination, no data listeners.

    Several form a `cluster`, named after its first member, that survives the loss of a minority.
    """
    sections = [
        _common(endpoints, directory, MANAGEMENT_MESSAGE_BYTES),
        f"jetstream {{ store_dir: {_quoted(RunDirectory(directory).broker_store(endpoints.name))}, "
        f"max_memory_store: {MANAGEMENT_MEMORY}, max_file_store: {MANAGEMENT_DISK} }}",
    ]
    if endpoints.route_port is not None:
        routes = [
            _quoted(f"nats-route://{Address(other.host, other.route_port)}")
            for other in cluster
            if other.route_port is not None and other.name != endpoints.name
        ]
        sections.append(
            f"cluster {{ name: {_quoted(cluster[0].name)}, "
            f"listen: {_listen(endpoints.host, endpoints.route_port)}, routes: [ {', '.join(routes)} ], "
            f'ping_interval: "{ROUTE_PING}", ping_max: {ROUTE_PINGS} }}'
        )
    return "\n".join([*sections, ""])


def _common(endpoints: BrokerEndpoints, directory: Path, max_message_bytes: int) -> str:
    lines = [
        f"server_name: {_quoted(endpoints.name)}",
        f"listen: {_listen(endpoints.host, endpoints.client_port)}",
        f"max_payload: {max_message_bytes}",
        f"log_file: {_quoted(RunDirectory(directory).log(endpoints.name))}",
        f"logfile_size_limit: {LOG_SIZE}",
        "logfile_max_num: 3",
    ]
    if endpoints.monitor_port is not None:
        lines.append(f"http: {_listen(endpoints.host, endpoints.monitor_port)}")
    return "\n".join(lines)


def _listen(host: str, port: int) -> str:
    return _quoted(Address(host, port))


def _quoted(value: object) -> str:
    text = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
