"""Access rules as real brokers keep them: by key, by password and by MQTT, and by no way around."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from tests.kit.secured_domain import Connected, SecuredDomain, secured_domain
from tests.kit.waiting import eventually

SITE = """
federation: one
domains:
  here: {edges: 1}
access:
  default: deny
  rules:
    - {who: {client: alice}, may: [publish], subjects: ["sensor.>"]}
    - {who: {client: bob}, may: [subscribe], subjects: [sensor, "sensor.>"]}
    - {who: {client: bob}, may_not: [subscribe], subjects: ["sensor.secret.>"]}
"""


@pytest.fixture(scope="module")
async def domain(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SecuredDomain]:
    async with secured_domain(tmp_path_factory.mktemp("ruled"), SITE) as running:
        for client in ("alice", "bob"):
            running.issue(client)
        assert running.brokers.keys is not None
        running.brokers.keys.renew()
        await running.brokers.take_over_keys()
        yield running


class Heard:
    """What comes to subscriptions."""

    def __init__(self) -> None:
        self.subjects: list[str] = []

    async def listen(self, connected: Connected, *patterns: str) -> None:
        async def heard(message: object) -> None:
            self.subjects.append(str(getattr(message, "subject", "")))

        for pattern in patterns:
            await connected.client.subscribe(pattern, cb=heard)
        for _ in range(2):  # nats-py writes its PING before the subscription that waits for its flusher
            await connected.client.flush()

    async def until_in_force(self, publisher: Connected, probe: str) -> None:
        """Wait until a subscription is known where somebody publishes who may publish this."""

        async def so() -> bool:
            await publisher.client.publish(probe, b"")
            return probe in self.subjects

        await eventually(so, f"{probe} should be heard")

    async def heard(self, subject: str) -> None:
        async def so() -> bool:
            return subject in self.subjects

        await eventually(so, f"{subject} should be heard")


@pytest.mark.parametrize("how", ["key", "password"])
async def test_each_may_what_the_rules_say(domain: SecuredDomain, how: str) -> None:
    login = domain.login if how == "key" else domain.by_password
    alice = await domain.connect(domain.endpoints.head, login("alice"))
    bob = await domain.connect(domain.endpoints.edges[0], login("bob"))
    heard = Heard()
    await heard.listen(bob, "sensor.>", "_MGR._MIRROR.sensor.>")
    await heard.until_in_force(alice, "sensor.probe")
    for subject in ("sensor.secret.x", "sensor.a"):
        await alice.client.publish(subject, b"")
    await heard.heard("sensor.a")
    assert [subject for subject in heard.subjects if subject != "sensor.probe"] == ["sensor.a"]
    assert alice.complaints == bob.complaints == []
    await bob.client.publish("sensor.a", b"")
    assert "sensor.a" in await bob.complaint()
    await alice.client.subscribe("sensor.a")
    assert "sensor.a" in await alice.complaint()
    for pattern in (">", "sensor.secret.>", "_INBOX.>", "_MGR._MIRROR.sensor.secret.>", "$MQTT.msgs.>"):
        await bob.client.subscribe(pattern)
        assert pattern.lower() in await bob.complaint()
    await alice.client.close()
    await bob.client.close()


async def test_copies_at_the_mirror_are_no_way_around(domain: SecuredDomain) -> None:
    edge = domain.endpoints.edges[0]
    alice = await domain.connect(edge, domain.login("alice"))
    bob = await domain.connect(edge, domain.login("bob"))
    heard = Heard()
    await heard.listen(bob, "_MGR._MIRROR.sensor.>")
    for subject in ("sensor.secret.x", "sensor.a"):
        await alice.client.publish(f"_MGR._MIRROR.{subject}", b"")
    await heard.heard("_MGR._MIRROR.sensor.a")
    assert heard.subjects == ["_MGR._MIRROR.sensor.a"]
    await alice.client.publish("_MGR._MIRROR.other", b"")
    assert "other" in await alice.complaint()
    await alice.client.close()
    await bob.client.close()


class Device:
    """An MQTT client and what happened to it."""

    def __init__(self, domain: SecuredDomain, user: str, port: int | None) -> None:
        self.topics: list[str] = []
        self.granted: list[int] = []
        self.published = 0
        self.client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id=f"device-{user}",
            protocol=paho.MQTTv311,
            reconnect_on_failure=False,
        )
        self.client.tls_set_context(domain.tls())
        self.client.username_pw_set(user, domain.by_password(user)().password)
        self.client.on_message = lambda _client, _data, message: self.topics.append(message.topic)
        self.client.on_subscribe = lambda _client, _data, _number, reasons, _properties: self.granted.extend(
            int(reason.value) for reason in reasons
        )
        self.client.connect("127.0.0.1", port or 0)
        self.client.loop_start()

    async def subscribe(self, topic: str) -> int:
        """The QoS that was granted; 128: none."""
        self.granted.clear()
        self.client.subscribe(topic, 1)

        async def answered() -> bool:
            return bool(self.granted)

        await eventually(answered, "the broker should answer")
        return self.granted[0]

    async def end(self) -> None:
        self.client.disconnect()
        await asyncio.to_thread(self.client.loop_stop)


async def test_mqtt_is_judged_by_the_same_rules(domain: SecuredDomain) -> None:
    """Also what is stored for QoS 1, and what a listener on the NATS side sees of the stores."""
    head, edge = domain.endpoints.head, domain.endpoints.edges[0]
    alice, bob = Device(domain, "alice", head.mqtt_port), Device(domain, "bob", edge.mqtt_port)
    listener = await domain.connect(edge, domain.by_password("bob"))
    heard = Heard()
    await heard.listen(listener, "$MQTT.sub.>", "$MQTT.sub.*", "sensor.>")
    try:
        assert await bob.subscribe("sensor/#") == 1
        assert await bob.subscribe("sensor/secret/#") == 128
        assert await bob.subscribe("#") == 128
        assert await alice.subscribe("sensor/a") == 128
        for topic in ("sensor/secret/x", "other/x", "sensor/a"):
            alice.client.publish(topic, b"", 1)

        async def arrived() -> bool:
            return "sensor/a" in bob.topics

        await eventually(arrived, "what is allowed should arrive")
        assert bob.topics == ["sensor/a"]
        assert not [subject for subject in heard.subjects if "secret" in subject or "other" in subject]
    finally:
        await alice.end()
        await bob.end()
        await listener.client.close()
