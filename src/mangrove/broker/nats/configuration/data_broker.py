"""Configuration of the brokers that carry what applications say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mangrove.broker.nats.configuration.data_permissions import data_users, system_users
from mangrove.broker.nats.configuration.syntax import common, listen, listing, quoted
from mangrove.broker.nats.configuration.tls import NEWEST_ONLY, listener_tls, remote_tls
from mangrove.broker.nats.configuration.users import users_block
from mangrove.broker.security import BrokerSecurity
from mangrove.host.run_directory import RunDirectory
from mangrove.model.agents.credentials import Credentials
from mangrove.model.endpoints import BrokerEndpoints
from mangrove.model.shared_names import MIRROR_PREFIX

# MQTT keeps its sessions in JetStream; these bounds are ample for that and keep a broker from filling a disk.
SESSION_MEMORY = "64MB"
SESSION_DISK = "1GB"
# What an edge asks its head for MQTT clients while they are apart is lost, and who asked waits 5 s in vain.
RECONNECT = "50ms"
RECONNECTS_FOR_A_REPORT = 100


def data_broker_config(
    endpoints: BrokerEndpoints,
    directory: Path,
    *,
    max_message_bytes: int,
    jetstream_domain: str,
    attach_to: Sequence[str] = (),
    own_jetstream: bool = True,
    system_user: Credentials | None = None,
    security: BrokerSecurity | None = None,
) -> str:
    """Configuration of a head broker, or of an edge broker that is a leaf node of one of `attach_to`.

    It attaches to the first of them that lives, to another when that dies, and to no address that it is
    told on the way; and mirror copies stay where they are
    (docs/decisions/0060-each-broker-attaches-to-an-earlier-one.md).

    The MQTT sessions and messages of a broker are kept in `jetstream_domain`: by itself, or, without
    `own_jetstream`, by the head (docs/decisions/0010-one-jetstream-domain-for-each-site.md).

    With `security`, only its users come in, and everything is encrypted
    (docs/decisions/0130-users-of-the-one-account-not-accounts.md). Without, the `system_user` may ask for
    statistics, and all others go on without a name
    (docs/decisions/0032-agents-watch-by-the-system-account.md).
    """
    sections = [common(endpoints, directory, max_message_bytes)]
    if security is not None:
        sections.append(listener_tls(security))
    if own_jetstream:
        sections.append(
            f"jetstream {{ store_dir: {quoted(RunDirectory(directory).broker_store(jetstream_domain))}, "
            f"domain: {quoted(jetstream_domain)}, "
            f"max_memory_store: {SESSION_MEMORY}, max_file_store: {SESSION_DISK} }}",
        )
    if endpoints.mqtt_port is not None:
        mqtt = [
            f"listen: {listen(endpoints.host, endpoints.mqtt_port)}",
            f"js_domain: {quoted(jetstream_domain)}",
        ]
        if security is not None:
            mqtt.append(listener_tls(security))
        sections.append(f"mqtt {{ {', '.join(mqtt)} }}")
    leaf_nodes = []
    if endpoints.leaf_port is not None:
        leaf_nodes.append(f"listen: {listen(endpoints.host, endpoints.leaf_port)}")
        if security is not None:
            leaf_nodes.append(listener_tls(security, min_version=NEWEST_ONLY))
    if attach_to:
        leaf_nodes += [f'reconnect: "{RECONNECT}"', f"remotes: [ {_remote(attach_to, security)} ]"]
        sections.append(f"reconnect_error_reports: {RECONNECTS_FOR_A_REPORT}")
    if leaf_nodes:
        sections.append(f"leafnodes {{ {', '.join(leaf_nodes)} }}")
    if security is not None:
        sections += _accounts(security)
    elif system_user is not None:
        user = f"{{ user: {quoted(system_user.user)}, password: {quoted(system_user.password)} }}"
        sections.append(f"accounts {{ $SYS {{ users: [ {user} ] }} }}")
    return "\n".join(sections) + "\n"


def _remote(attach_to: Sequence[str], security: BrokerSecurity | None) -> str:
    denied = listing([f"{MIRROR_PREFIX}>"])
    parts = [
        f"urls: {listing(attach_to)}",
        "no_randomize: true",
        "ignore_discovered_servers: true",
        f"deny_imports: {denied}",
        f"deny_exports: {denied}",
    ]
    if security is not None and security.seed:
        parts += [f"nkey: {quoted(security.seed)}", remote_tls(security)]
    return f"{{ {', '.join(parts)} }}"


def _accounts(security: BrokerSecurity) -> list[str]:
    """Everybody is in the default account but those who watch the broker."""
    everybody = users_block(data_users(security))
    watching = users_block(system_users(security))
    return [f"authorization {{ {everybody} }}", f"accounts {{ $SYS {{ {watching} }} }}"]
