"""Domains whose head is a RabbitMQ, in a federation file: what they may have, and what they are told."""

from __future__ import annotations

import pytest

from mangrove.config import parse_federation
from mangrove.model.broker_kinds import BrokerKind
from mangrove.model.endpoints import fixed_endpoints, shown_locally

FILE = """
federation: mixed
domains:
  geneva: {{}}
  tokyo: {tokyo}
links:
  - {{between: [geneva, tokyo]}}
"""


def mistakes(tokyo: str) -> list[str]:
    return [str(mistake) for mistake in parse_federation(FILE.format(tokyo=tokyo), "file").mistakes]


def test_a_rabbitmq_of_ours_has_ports_for_all_its_protocols() -> None:
    federation = parse_federation(FILE.format(tokyo="{kind: rabbitmq}"), "file").require()
    assert federation.domains["tokyo"].kind is BrokerKind.RABBITMQ
    endpoints = fixed_endpoints(federation.domains["tokyo"])
    head = endpoints.head
    assert head.client_url == "amqp://127.0.0.1:7100"
    assert head.leaf_url == "amqp://127.0.0.1:7100/?management=http://127.0.0.1:7103"
    assert endpoints.management.kind is BrokerKind.NATS
    ports = [head.client_port, head.mqtt_port, head.monitor_port, head.management_port, head.stomp_port]
    ports += [endpoints.management.client_port, endpoints.management.monitor_port, endpoints.gateway.port]
    assert len(set(ports)) == len(ports)
    assert set(ports) <= set(range(7100, 7110))
    secured = shown_locally(endpoints).head
    assert secured.client_url == "amqps://127.0.0.1:7100"
    assert secured.leaf_url.endswith("?management=https://127.0.0.1:7103")


def test_one_of_somebody_else_is_named_by_its_url() -> None:
    tokyo = "{kind: rabbitmq, external: {head: 'amqps://10.0.0.5:5671/plant', exchange: orders}}"
    reading = parse_federation(FILE.format(tokyo=tokyo), "file")
    external = reading.require().domains["tokyo"].external
    assert external is not None
    assert external.kind is BrokerKind.RABBITMQ
    assert external.leaf == "amqps://10.0.0.5:5671/plant?exchange=orders"
    assert reading.external_heads == {"domains.tokyo.external.head": (external.leaf, BrokerKind.RABBITMQ)}
    head = fixed_endpoints(reading.require().domains["tokyo"]).head
    assert head.client_url == "amqps://10.0.0.5:5671"


def test_the_kind_may_stand_under_external_alone() -> None:
    tokyo = "{external: {kind: rabbitmq, head: 'amqp://h:1'}}"
    assert parse_federation(FILE.format(tokyo=tokyo), "f").require().domains["tokyo"].kind == "rabbitmq"


@pytest.mark.parametrize(
    ("tokyo", "place", "remedy"),
    [
        ("{kind: rabbitmq, edges: 2}", "domains.tokyo.edges", "no edge brokers"),
        ("{kind: rabbitmq, elastic: true}", "domains.tokyo.elastic", "`kind: nats`"),
        ("{kind: rabbitmq, gateways: 2}", "domains.tokyo.gateways", "no second gateway"),
        ("{kind: rabbitmq, move_plain_clients: true}", "domains.tokyo.move_plain_clients", "agents move no"),
        ("{kind: rabbitmq, accept_load_from: [geneva]}", "domains.tokyo.accept_load_from", "agents move no"),
        ("{kind: kafka}", "domains.tokyo.kind", "'nats' or 'rabbitmq'"),
        (
            "{kind: rabbitmq, external: {head: 'nats://h:4222'}}",
            "domains.tokyo.external.head",
            "amqp://host:port or amqps://host:port, or `kind: nats`",
        ),
        ("{external: {head: 'amqp://h:5672'}}", "domains.tokyo.external.head", "or `kind: rabbitmq`"),
        (
            "{external: {head: 'nats://h:1', exchange: x}}",
            "domains.tokyo.external.exchange",
            "kind: rabbitmq",
        ),
        (
            "{kind: nats, external: {kind: rabbitmq, head: 'amqp://h:1'}}",
            "domains.tokyo.external.kind",
            "both the same",
        ),
        (
            "{kind: rabbitmq, external: {head: 'amqp://h:1', edges: ['amqp://i:1']}}",
            "domains.tokyo.external.edges",
            "leave it out",
        ),
        (
            "{kind: rabbitmq, external: {head: 'amqp://h:1', leaf: 'nats-leaf://h:1'}}",
            "domains.tokyo.external.leaf",
            "`head` alone",
        ),
        (
            "{kind: rabbitmq, external: {head: 'amqp://h:1', credentials: {nkey_file: x}}}",
            "domains.tokyo.external.credentials.nkey_file",
            "password_file",
        ),
        (
            "{kind: rabbitmq, external: "
            "{head: 'amqp://h:1', credentials: {user: a, password_env: B, ca_file: c}}}",
            "domains.tokyo.external.head",
            "amqps://host:port",
        ),
        (
            "{kind: rabbitmq, hosts: {a: {address: 10.0.0.1, brokers: [head]}, b: {address: 10.0.0.2}}}",
            "domains.tokyo.hosts",
            "one host",
        ),
    ],
)
def test_what_cannot_be_is_one_message_with_place_and_remedy(tokyo: str, place: str, remedy: str) -> None:
    (found,) = mistakes(tokyo)
    assert found.startswith(f"{place}: ")
    assert remedy in found
