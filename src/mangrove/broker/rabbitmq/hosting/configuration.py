"""What a RabbitMQ of ours is told: its listeners, its users, and what they may do."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from mangrove.broker.rabbitmq.address import DEFAULT_EXCHANGE, DEFAULT_VHOST, GROUPS_EXCHANGE, GUEST
from mangrove.broker.rabbitmq.hosting.passwords import password_of
from mangrove.broker.rabbitmq.hosting.topic_permissions import topic_permission
from mangrove.broker.rabbitmq.hosting.users import DEFINITIONS, HOST_ACCESS, HostAccess, read_access
from mangrove.broker.security import BrokerSecurity, Rights, Subjects
from mangrove.host.keys.logins.salted_hash import salted_sha256
from mangrove.model.address import Address
from mangrove.model.agents.directions import DIRECTIONS_SUBJECT
from mangrove.model.endpoints import BrokerEndpoints
from mangrove.model.security.users import GATEWAY_USER, HOST_USER
from mangrove.model.subjects import READY_QUESTION, REPLY_PREFIX

CONFIGURATION = "rabbitmq.conf"
PASSWORD_BYTES = 24


def broker_files(
    broker: BrokerEndpoints, home: Path, *, max_message_bytes: int, security: BrokerSecurity | None = None
) -> dict[str, bytes]:
    """The files of a RabbitMQ, by name; without `security` everybody comes in."""
    files = {CONFIGURATION: _configuration(broker, home, max_message_bytes, security).encode()}
    if security is None:
        definitions = _definitions([_user(GUEST, salted_sha256(GUEST), tags="administrator")])
    else:
        access = _host_access(broker, home, security)
        definitions = _definitions(_secured_users(security, access), _topic_permissions(security))
        files[HOST_ACCESS] = msgspec.json.encode(access)
    files[DEFINITIONS] = msgspec.json.format(msgspec.json.encode(definitions))
    return files


def _host_access(broker: BrokerEndpoints, home: Path, security: BrokerSecurity) -> HostAccess:
    """How the host tells a running broker its users: by a password that is made once and never leaves it."""
    before = read_access(home)
    pages = Address(broker.monitor_host or broker.host, broker.management_port or 0)
    return HostAccess(
        management=f"https://{pages}",
        password=secrets.token_urlsafe(PASSWORD_BYTES) if before is None else before.password,
        authorities=str(security.authorities),
    )


def _configuration(
    broker: BrokerEndpoints, home: Path, max_message_bytes: int, security: BrokerSecurity | None
) -> str:
    way = "tcp" if security is None else "ssl"
    lines: dict[str, object] = {
        "listeners.tcp": "none",
        f"listeners.{way}.1": Address(broker.host, broker.client_port),
        "loopback_users": "none",
        "load_definitions": f"{home}/{DEFINITIONS}",
        "log.console": "true",
        "log.console.level": "info",
        "log.connection.level": "warning",
        "log.file": "false",
        "max_message_size": max_message_bytes + (64 << 10),
        "management.rates_mode": "none",
        "prometheus.tcp.ip": broker.monitor_host or broker.host,
        "prometheus.tcp.port": broker.monitor_port,
        "mqtt.listeners.tcp": "none",
        f"mqtt.listeners.{way}.1": Address(broker.host, broker.mqtt_port or 0),
        "mqtt.exchange": "amq.topic",
        "mqtt.allow_anonymous": "true" if security is None else "false",
        "stomp.listeners.tcp": "none",
        f"stomp.listeners.{way}.1": Address(broker.host, broker.stomp_port or 0),
        "stomp.implicit_connect": "false",
    }
    if security is None:
        del lines["listeners.tcp"], lines["mqtt.listeners.tcp"], lines["stomp.listeners.tcp"]
        lines |= {
            "management.tcp.ip": broker.host,
            "management.tcp.port": broker.management_port,
            "mqtt.default_user": GUEST,
            "mqtt.default_pass": GUEST,
            "stomp.default_user": GUEST,
            "stomp.default_pass": GUEST,
        }
    else:
        certificate = {
            "cacertfile": security.authorities,
            "certfile": security.certificate,
            "keyfile": security.key,
        }
        lines |= {f"ssl_options.{name}": path for name, path in certificate.items()}
        lines |= {f"management.ssl.{name}": path for name, path in certificate.items()}
        lines |= {
            "ssl_options.verify": "verify_none",
            "ssl_options.fail_if_no_peer_cert": "false",
            "ssl_options.versions.1": "tlsv1.3",
            "ssl_options.versions.2": "tlsv1.2",
            "management.ssl.ip": broker.monitor_host or broker.host,
            "management.ssl.port": broker.management_port,
        }
    return "".join(f"{name} = {value}\n" for name, value in lines.items())


def _secured_users(security: BrokerSecurity, access: HostAccess) -> Iterable[dict[str, object]]:
    """The gateway, its host, and clients that have passwords."""
    yield _user(GATEWAY_USER, salted_sha256(password_of(security.gateway_seed)), tags="monitoring")
    yield _user(HOST_USER, salted_sha256(access.password), tags="administrator")
    for user in security.users:
        if user.client and user.password_sha256:
            yield _user(user.name, user.password_sha256, tags="")


def _topic_permissions(security: BrokerSecurity) -> list[dict[str, object]]:
    """What access rules leave to clients, and where all of them ask their gateway; without rules, all."""
    asks = (DIRECTIONS_SUBJECT, f"{REPLY_PREFIX}{security.domain}.{READY_QUESTION}")
    return [
        topic_permission(user.name, _asking(security.rights.get(user.name, Rights()), asks), exchange)
        for user in security.users
        if user.client and user.password_sha256
        for exchange in (DEFAULT_EXCHANGE, GROUPS_EXCHANGE)
    ]


def _asking(rights: Rights, asks: tuple[str, ...]) -> Rights:
    allowed = rights.publish.allow
    if allowed is None:
        return rights
    return Rights(Subjects((*allowed, *asks), rights.publish.deny), rights.subscribe)


def _user(name: str, password_hash: str, *, tags: str) -> dict[str, object]:
    return {
        "name": name,
        "password_hash": password_hash,
        "hashing_algorithm": "rabbit_password_hashing_sha256",
        "tags": tags,
    }


# What clients may declare and use: everything but what belongs to gateways. Events tell who does what.
_NOT_OURS = r"^(?!mangrove\.|amq\.rabbitmq\.(event|trace|log)).*"
# Queues are bound to the exchange of groups, too.
_HEARD = r"^(?!mangrove\.(?!groups$)|amq\.rabbitmq\.(event|trace|log)).*"


def _definitions(
    users: Iterable[Mapping[str, object]], topic_permissions: Iterable[Mapping[str, object]] = ()
) -> dict[str, object]:
    users = list(users)
    everything = dict.fromkeys(("configure", "write", "read"), ".*")
    clients = {"configure": _NOT_OURS, "write": _NOT_OURS, "read": _HEARD}
    return {
        "vhosts": [{"name": DEFAULT_VHOST}],
        "users": users,
        "permissions": [
            {
                "user": user["name"],
                "vhost": DEFAULT_VHOST,
                **(everything if user["name"] in (GATEWAY_USER, HOST_USER, GUEST) else clients),
            }
            for user in users
        ],
        "topic_permissions": list(topic_permissions),
    }
