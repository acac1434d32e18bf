"""The files of a RabbitMQ of ours: what it listens to, and whom it lets in."""

from __future__ import annotations

from pathlib import Path

import msgspec
from tests.kit.keyed import made

from mangrove.agent.hosting.broker_keys import BrokerKeys
from mangrove.broker.rabbitmq.hosting.configuration import broker_files
from mangrove.broker.rabbitmq.hosting.passwords import password_of
from mangrove.host.keys.logins.salted_hash import salted_sha256
from mangrove.model.broker_kinds import BrokerKind
from mangrove.model.endpoints import fixed_endpoints, shown_locally
from mangrove.model.federation import Domain, Federation, Link

FEDERATION = Federation(
    name="ring",
    domains={
        "a": Domain(name="a", base_port=7000, kind=BrokerKind.RABBITMQ, address="192.0.2.7"),
        "b": Domain(name="b", base_port=7100),
    },
    links=(Link(between=("a", "b")),),
)
ENDPOINTS = fixed_endpoints(FEDERATION.domains["a"])


def test_without_keys_everybody_comes_in_as_guest(tmp_path: Path) -> None:
    files = broker_files(ENDPOINTS.head, tmp_path, max_message_bytes=1000)
    text = files["rabbitmq.conf"].decode()
    assert "listeners.tcp.1 = 192.0.2.7:7000\n" in text
    assert "ssl" not in text
    users = msgspec.json.decode(files["definitions.json"])["users"]
    assert [user["name"] for user in users] == ["guest"]


def test_with_keys_nothing_is_said_in_the_clear_and_pages_are_local(tmp_path: Path) -> None:
    keys = made(tmp_path / "keys", FEDERATION)
    broker_keys = BrokerKeys(str(keys.domain("a").path), FEDERATION, "a")
    head = shown_locally(ENDPOINTS).head
    security = broker_keys.of(head, attaches=False)
    files = broker_files(head, tmp_path, max_message_bytes=1000, security=security)
    text = files["rabbitmq.conf"].decode()
    for line in (
        "listeners.tcp = none",
        "listeners.ssl.1 = 192.0.2.7:7000",
        "mqtt.listeners.tcp = none",
        "stomp.listeners.tcp = none",
        "mqtt.allow_anonymous = false",
        "management.ssl.ip = 127.0.0.1",
        "prometheus.tcp.ip = 127.0.0.1",
    ):
        assert f"{line}\n" in text
    assert "management.tcp" not in text
    definitions = msgspec.json.decode(files["definitions.json"])
    assert {user["name"]: user["tags"] for user in definitions["users"]} == {
        "gateway": "monitoring",
        "host": "administrator",
        "client": "",
    }
    clients = [each for each in definitions["permissions"] if each["user"] == "client"]
    assert all("mangrove" in each["configure"] for each in clients)
    secrets = [security.gateway_seed, password_of(security.gateway_seed)]
    secrets.append(keys.domain("a").client("client").password.read_text().strip())
    everything = b"".join(files.values()).decode()
    assert not [secret for secret in secrets if secret in everything]


def test_the_host_keeps_its_password_when_keys_change(tmp_path: Path) -> None:
    keys = made(tmp_path / "keys", FEDERATION)
    security = BrokerKeys(str(keys.domain("a").path), FEDERATION, "a").of(ENDPOINTS.head, attaches=False)
    first = broker_files(ENDPOINTS.head, tmp_path, max_message_bytes=1000, security=security)
    (tmp_path / "host_access.json").write_bytes(first["host_access.json"])
    second = broker_files(ENDPOINTS.head, tmp_path, max_message_bytes=1000, security=security)
    assert first["host_access.json"] == second["host_access.json"]


def test_a_password_is_hashed_as_rabbitmq_does() -> None:
    """The example of RabbitMQ's documentation of its passwords."""
    assert (
        salted_sha256("test12", bytes.fromhex("908DC60A"))
        == "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"
    )
