"""A domain whose head is a RabbitMQ, beside one of NATS, with keys: clients of other makers on both sides."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import ssl
import subprocess
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pika
import pika.exceptions
import psutil
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from paho.mqtt.enums import CallbackAPIVersion
from tests.kit.amqp_clients import AmqpClient, amqp_clients, parameters
from tests.kit.amqp_js import steady_script
from tests.kit.running import Running
from tests.kit.waiting import eventually

import mangrove
from mangrove.agent.inspection import brokers_follow, inspect_domain
from mangrove.agent.management import ManagementConnection
from mangrove.broker.kinds import kind_of
from mangrove.broker.rabbitmq.address import RabbitAddress
from mangrove.broker.rabbitmq.exchange.management import fetch
from mangrove.broker.rabbitmq.hosting.server import environment
from mangrove.broker.rabbitmq.hosting.users import read_access
from mangrove.config import parse_federation
from mangrove.host.keys.directory import DomainKeys
from mangrove.host.keys.login import BrokerLogin, LoginSource
from mangrove.host.keys.logins.user_login import local_login
from mangrove.host.keys.making import issue_client, revoke
from mangrove.host.nats_connecting import close_in_time, connect_or_close
from mangrove.model.broker_kinds import BrokerKind
from mangrove.model.subjects import matches
from mangrove.testbed.local_federation import LocalFederation

FEDERATION = """
federation: mixed
domains:
  geneva: {}
  oslo:   {}
  tokyo:  {kind: rabbitmq}
links:
  - {between: [geneva, oslo], delay_ms: 30}
  - {between: [geneva, tokyo], delay_ms: 1}
transforms:
  compact: {decode: json, encode: msgpack}
topics:
  - {match: "plant.>", scope: domain}
  - {match: "packed.>", transform: compact}
  - {match: "packed-at-once.>", transform: {use: compact, at: sending}}
access:
  - {who: {domain: tokyo}, may_not: [publish], subjects: ["secret.>"]}
  - {who: {domain: tokyo}, may_not: [subscribe], subjects: ["hidden.>"]}
"""


class Mixed(Running):
    """The running federation, and its clients."""

    @property
    def broker(self) -> Any:
        return self.launched.endpoints["tokyo"].head

    @property
    def device(self) -> Any:
        return DomainKeys(Path(self.launched.endpoints["tokyo"].keys)).client("client")

    @property
    def how(self) -> Any:
        return parameters(self.broker, self.device)

    @asynccontextmanager
    async def nats(self, domain: str = "geneva") -> AsyncIterator[Client]:
        endpoints = self.launched.endpoints[domain]
        client = await connect_or_close(endpoints.head.client_url, login=local_login(endpoints.keys))
        try:
            yield client
        finally:
            await close_in_time(client)


@pytest.fixture(scope="module")
async def mixed(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Mixed]:
    directory = tmp_path_factory.mktemp("state") / "mixed"
    federation = parse_federation(FEDERATION, "mixed").require()
    async with LocalFederation(federation, directory, ephemeral=True, secured=True) as launched:
        running = Mixed(launched)
        await running.links_up()
        yield running


@pytest.fixture
async def geneva(mixed: Mixed) -> AsyncIterator[Client]:
    await mixed.at_rest()
    async with mixed.nats() as client:
        yield client


@pytest.fixture
async def tokyo(mixed: Mixed) -> AsyncIterator[AmqpClient]:
    async with amqp_clients(mixed.how) as (client,):
        yield client


class Heard(list[Msg]):
    """What a subscriber of NATS got."""

    async def take(self, message: Msg) -> None:
        self.append(message)

    async def reach(self, count: int) -> None:
        async def enough() -> bool:
            return len(self) >= count

        await eventually(enough, f"{count} messages should come")


async def test_messages_go_both_ways_with_their_headers(
    mixed: Mixed, geneva: Client, tokyo: AmqpClient
) -> None:
    heard = Heard()
    await geneva.subscribe("to.geneva.>", cb=heard.take)
    queue = await tokyo.queue("to.tokyo.#")
    await mixed.knows_interest("tokyo", "geneva", 1)
    await mixed.knows_interest("geneva", "tokyo", 2)

    await tokyo.publish(
        "to.geneva.one",
        b"hello",
        message_id="m-1",
        content_type="text/plain",
        correlation_id="c-1",
        expiration="60000",
        headers={"Colour": "red", "Count": 7, "x-own": "stays", "Nested": {"a": 1}},
    )
    await geneva.publish("to.tokyo.one", b"konnichiwa", headers={"Colour": "blue", "Nats-Msg-Id": "n-1"})
    await geneva.publish("to.tokyo", b"no further word")
    await geneva.publish("to.tokyo.large", b"x" * 300_000)
    await geneva.publish("to.tokyo.empty", b"")

    await heard.reach(1)
    assert (heard[0].subject, heard[0].data) == ("to.geneva.one", b"hello")
    assert heard[0].headers == {
        "Colour": "red",
        "Count": "7",
        "Nats-Msg-Id": "m-1",
        "Content-Type": "text/plain",
        "Correlation-Id": "c-1",
        "Amqp-Expiration": "60000",
    }
    got = {each.key: each for each in await tokyo.take(queue, 4)}
    assert got["to.tokyo.one"].body == b"konnichiwa"
    assert got["to.tokyo.one"].properties.message_id == "n-1"
    assert got["to.tokyo.one"].properties.headers["Colour"] == "blue"
    assert got["to.tokyo"].body == b"no further word"
    assert got["to.tokyo.large"].body == b"x" * 300_000
    assert got["to.tokyo.empty"].body == b""


async def test_transforms_at_a_rabbitmq(mixed: Mixed, geneva: Client, tokyo: AmqpClient) -> None:
    """At either gateway, in both directions; what fails is told in the domain where it was tried."""
    heard = Heard()
    for subject in ("packed.g", "packed-at-once.g", "dead.letter.>"):
        await geneva.subscribe(subject, cb=heard.take)
    queue = await tokyo.queue("packed.t", "packed-at-once.t", "dead.letter.#")
    await mixed.knows_interest("tokyo", "geneva", 3)
    await mixed.knows_interest("geneva", "tokyo", 4)
    for payload in (b'{"a": 1}', b"{"):
        for start in ("packed", "packed-at-once"):
            await tokyo.publish(f"{start}.g", payload, message_id="m-1")
            await geneva.publish(f"{start}.t", payload, headers={"Nats-Msg-Id": "n-1"})
    await heard.reach(4)
    assert {each.subject: each.data for each in heard} == {
        "packed.g": b"\x81\xa1a\x01",
        "packed-at-once.g": b"\x81\xa1a\x01",
        "dead.letter.packed.g": b"{",
        "dead.letter.packed-at-once.t": b"{",
    }
    assert {(each.headers or {})["Nats-Msg-Id"] for each in heard} == {"m-1", "n-1"}
    got = {each.key: each for each in await tokyo.take(queue, 4)}
    assert {key: each.body for key, each in got.items()} == {
        "packed.t": b"\x81\xa1a\x01",
        "packed-at-once.t": b"\x81\xa1a\x01",
        "dead.letter.packed.t": b"{",
        "dead.letter.packed-at-once.g": b"{",
    }
    dead = got["dead.letter.packed.t"].properties
    assert (dead.message_id, dead.headers["Mangrove-Dead-Transform"]) == ("n-1", "compact")


@pytest.mark.parametrize("pattern", ["wild.>", "wild.*", "wild.a.b", "*.a.>"])
async def test_what_nats_asks_for_is_bound_exactly(
    mixed: Mixed, geneva: Client, tokyo: AmqpClient, pattern: str
) -> None:
    heard = Heard()
    await geneva.subscribe(pattern, cb=heard.take)
    await geneva.subscribe("end", cb=heard.take)
    await mixed.knows_interest("tokyo", "geneva", 2)
    keys = ["wild", "wild.a", "wild.a.b", "wild.a.b.c", "calm.a.b", "wild..b", "#", "wild.#"]
    for key in [*keys, "end"]:
        await tokyo.publish(key, b"")

    expected = [key for key in keys if matches(pattern, key) and ".." not in key]
    await heard.reach(len(expected) + 1)
    assert [each.subject for each in heard] == [*expected, "end"]


async def test_bindings_that_come_and_go_are_interest(
    mixed: Mixed, geneva: Client, tokyo: AmqpClient
) -> None:
    first = await tokyo.queue("seen.#", "seen.*")
    second = await tokyo.queue("seen.#")
    await mixed.knows_interest("geneva", "tokyo", 3)  # `seen`, `seen.>`, `seen.*`
    await tokyo.run(lambda: tokyo.channel.queue_unbind(first, "amq.topic", "seen.*"))
    await mixed.knows_interest("geneva", "tokyo", 2)
    await tokyo.run(lambda: tokyo.channel.queue_delete(second))
    await tokyo.run(lambda: tokyo.channel.queue_bind(first, "amq.topic", "seen.last"))
    await mixed.knows_interest("geneva", "tokyo", 3)
    await tokyo.run(lambda: tokyo.channel.queue_delete(first))
    await mixed.knows_interest("geneva", "tokyo", 0)


async def test_nothing_comes_back_that_the_gateway_brought(
    mixed: Mixed, geneva: Client, tokyo: AmqpClient
) -> None:
    heard = Heard()
    await geneva.subscribe("both.>", cb=heard.take)
    queue = await tokyo.queue("both.#")
    await mixed.knows_interest("tokyo", "geneva", 1)
    await mixed.knows_interest("geneva", "tokyo", 2)
    before = await mixed.gateway("tokyo")
    for number in range(50):
        await geneva.publish("both.ways", b"%d" % number)
    assert len(await tokyo.take(queue, 50)) == 50
    await tokyo.publish("both.ways", b"last")
    await heard.reach(51)
    assert [each.data for each in heard] == [b"%d" % number for number in range(50)] + [b"last"]
    assert (await mixed.gateway("tokyo")).sent == before.sent + 1


async def test_a_shared_queue_is_a_queue_group_of_its_domain(mixed: Mixed, geneva: Client) -> None:
    served: Counter[str] = Counter()

    def by(name: str) -> Callable[[Msg], Any]:
        async def take(_: Msg) -> None:
            served[name] += 1

        return take

    for name in ("g1", "g2"):
        await geneva.subscribe("jobs.geneva", "workers", cb=by(name))
    async with amqp_clients(mixed.how, 3) as (first, second, publisher):
        queue = await first.queue("jobs.tokyo", name="workers")
        await mixed.knows_interest("tokyo", "geneva", 1)
        await mixed.knows_interest("geneva", "tokyo", 1)
        for number in range(100):
            await geneva.publish("jobs.tokyo", b"%d" % number)
        await publisher.publish("jobs.geneva", *(b"%d" % number for number in range(100)))
        taken = await asyncio.gather(first.take(queue, 50), second.take(queue, 50))
        bodies = sorted(int(each.body) for got in taken for each in got)
        assert bodies == list(range(100))

        async def all_served() -> bool:
            return served.total() >= 100

        await eventually(all_served, "100 jobs should be served")
        assert served.total() == 100
        assert set(served) == {"g1", "g2"}
        await first.run(lambda: first.channel.queue_delete(queue))


class Members:
    """Who served which job, over all members of a queue group."""

    def __init__(self) -> None:
        self.served: dict[str, Counter[bytes]] = {}

    def by(self, name: str) -> Callable[[Msg], Any]:
        counter = self.served[name] = Counter()

        async def take(message: Msg) -> None:
            counter[message.data] += 1

        return take

    @property
    def all(self) -> Counter[bytes]:
        return sum(self.served.values(), Counter())

    async def reach(self, count: int) -> None:
        async def enough() -> bool:
            return len(self.all) >= count

        await eventually(enough, f"{count} jobs should be served")


async def test_a_queue_group_has_members_at_brokers_of_both_kinds(mixed: Mixed, geneva: Client) -> None:
    """Each job is done once over all of them, wherever it comes from, and plain subscribers hear all."""
    members = Members()
    async with mixed.nats("oslo") as oslo, amqp_clients(mixed.how, 3) as (first, second, publisher):
        heard = Heard()
        await oslo.subscribe("work.>", "crew", cb=members.by("oslo"))
        await geneva.subscribe("work.>", cb=heard.take)
        queue = await first.queue(name="crew")
        await first.run(lambda: first.channel.queue_bind(queue, "mangrove.groups", "work.#"))
        plain = await second.queue("work.#")
        async with in_thread(first, queue, members, "first"), in_thread(second, queue, members, "second"):
            await mixed.knows_interest("geneva", "tokyo", 4)  # `work`, `work.>`, as a group and plainly
            await mixed.knows_interest("oslo", "tokyo", 4)
            await mixed.knows_interest("tokyo", "oslo", 1)
            for far in ("oslo", "tokyo"):
                await mixed.knows_interest(far, "geneva", 1)
            jobs = {b"%s-%d" % (where, number) for where in (b"g", b"o", b"t") for number in range(60)}
            for number in range(60):
                await geneva.publish("work.x", b"g-%d" % number)
                await oslo.publish("work.x", b"o-%d" % number)
            await publisher.publish("work.x", *(b"t-%d" % number for number in range(60)))
            await members.reach(180)
            await heard.reach(180)
        assert members.all == Counter(jobs)
        at_tokyo = members.served["first"] + members.served["second"]
        # Near ones serve: tokyo's what geneva and tokyo publish, oslo's what oslo does.
        assert {body[:1] for body in at_tokyo} == {b"g", b"t"}
        assert {body[:1] for body in members.served["oslo"]} == {b"o"}
        assert all(members.served.values())
        assert Counter(each.data for each in heard) == Counter(jobs)
        assert Counter(each.body for each in await second.take(plain, 180)) == Counter(jobs)
        await first.run(lambda: first.channel.queue_delete(queue))


@asynccontextmanager
async def in_thread(client: AmqpClient, queue: str, members: Members, name: str) -> AsyncIterator[None]:
    """A consumer of a queue, until the block ends."""
    counter = members.served[name] = Counter()
    begun, ending = threading.Event(), threading.Event()
    channel = await client.run(lambda: client.channel.connection.channel())

    def consume() -> None:
        channel.basic_qos(prefetch_count=1)
        for method, _, body in channel.consume(queue, inactivity_timeout=0.05):
            begun.set()
            if method is not None:
                counter[body] += 1
                channel.basic_ack(method.delivery_tag)
            if ending.is_set():
                break
        channel.close()

    consuming = asyncio.create_task(client.run(consume))

    async def consumes() -> bool:
        return begun.is_set() or consuming.done()

    try:
        await eventually(consumes, f"{name} should consume")
        yield
    finally:
        ending.set()
        await consuming


async def test_members_elsewhere_serve_when_a_domain_with_a_rabbitmq_dies(
    mixed: Mixed, geneva: Client
) -> None:
    """Jobs are told apart by their numbers; none is lost, and few are done twice (decision 0013)."""
    members = Members()
    async with mixed.nats("oslo") as oslo, amqp_clients(mixed.how) as (worker,):
        await oslo.subscribe("shift", "night", cb=members.by("oslo"))
        queue = await worker.queue(name="night")
        await worker.run(lambda: worker.channel.queue_bind(queue, "mangrove.groups", "shift"))
        await mixed.knows_interest("geneva", "tokyo", 1)
        await mixed.knows_interest("geneva", "oslo", 1)
        async with in_thread(worker, queue, members, "tokyo"):
            sent = 0

            async def send_until(done: Callable[[], bool]) -> None:
                nonlocal sent
                deadline = time.monotonic() + 30
                while not done() and time.monotonic() < deadline:
                    await geneva.publish("shift", b"%d" % sent)
                    sent += 1
                    await asyncio.sleep(0.005)

            await send_until(lambda: len(members.served["tokyo"]) > 50)
            assert not members.served["oslo"]
            gateway = mixed.launched.sites["tokyo"].gateway
            assert gateway.pid is not None
            os.kill(gateway.pid, signal.SIGSTOP)
            try:
                await send_until(lambda: len(members.served["oslo"]) > 50)
            finally:
                os.kill(gateway.pid, signal.SIGKILL)
            await send_until(lambda: sent >= 400)
            await members.reach(sent)
        assert members.all.keys() == {b"%d" % number for number in range(sent)}
        await worker.run(lambda: worker.channel.queue_delete(queue))
    await mixed.links_up()


async def test_requests_are_answered_in_both_directions(
    mixed: Mixed, geneva: Client, tokyo: AmqpClient
) -> None:
    async def answer(message: Msg) -> None:
        await message.respond(b"from geneva: " + message.data)

    await geneva.subscribe("ask.geneva", cb=answer)
    questions = await tokyo.queue("ask.tokyo")
    answers = await tokyo.queue()
    await mixed.knows_interest("tokyo", "geneva", 1)
    await mixed.knows_interest("geneva", "tokyo", 1)

    await tokyo.publish("ask.geneva", b"how?", reply_to=answers, correlation_id="q-1")
    (got,) = await tokyo.take(answers, 1)
    assert (got.body, got.properties.correlation_id) == (b"from geneva: how?", "q-1")

    asking = asyncio.create_task(geneva.request("ask.tokyo", b"why?", timeout=20))
    (question,) = await tokyo.take(questions, 1)
    await tokyo.publish(
        question.properties.reply_to,
        b"from tokyo: " + question.body,
        exchange="",
        correlation_id=question.properties.correlation_id,
    )
    assert (await asking).data == b"from tokyo: why?"


async def test_direct_reply_to_works_across_the_border(mixed: Mixed, geneva: Client) -> None:
    async def answer(message: Msg) -> None:
        await message.respond(b"direct")

    await geneva.subscribe("ask.directly", cb=answer)
    await mixed.knows_interest("tokyo", "geneva", 1)
    got: list[tuple[str, bytes]] = []

    def ask(connection: pika.BlockingConnection) -> None:
        channel = connection.channel()
        channel.basic_consume(
            "amq.rabbitmq.reply-to",
            lambda _c, _m, properties, body: got.append((properties.correlation_id, body)),
            auto_ack=True,
        )
        described = pika.BasicProperties(reply_to="amq.rabbitmq.reply-to", correlation_id="d-1")
        channel.basic_publish("amq.topic", "ask.directly", b"?", described)
        until = time.monotonic() + 20
        while not got and time.monotonic() < until:
            connection.process_data_events(0.05)
        connection.close()

    await asyncio.to_thread(lambda: ask(pika.BlockingConnection(mixed.how)))
    assert got == [("d-1", b"direct")]


@pytest.fixture
def device(mixed: Mixed) -> Iterator[paho.Client]:
    client = paho.Client(CallbackAPIVersion.VERSION2, client_id="device", protocol=paho.MQTTv311)
    client.username_pw_set(mixed.device.name, mixed.device.password.read_text().strip())
    client.tls_set(str(mixed.device.trusted))
    client.connect("127.0.0.1", mixed.broker.mqtt_port)
    client.loop_start()
    yield client
    client.disconnect()
    client.loop_stop()


async def test_an_mqtt_client_of_the_broker_takes_part(
    mixed: Mixed, geneva: Client, device: paho.Client
) -> None:
    heard, arrived = Heard(), []
    await geneva.subscribe("sensors.*.level", cb=heard.take)
    device.on_message = lambda _c, _d, message: arrived.append((message.topic, message.payload))
    device.subscribe("alerts/+/#", 1)
    await mixed.knows_interest("tokyo", "geneva", 1)
    await mixed.knows_interest("geneva", "tokyo", 1)
    device.publish("sensors/7/level", b"12", 1)
    await geneva.publish("alerts.flood.now", b"run")
    await heard.reach(1)
    assert (heard[0].subject, heard[0].data) == ("sensors.7.level", b"12")

    async def alerted() -> bool:
        return bool(arrived)

    await eventually(alerted, "the device should hear of it")
    assert arrived == [("alerts/flood/now", b"run")]


class Device:
    """An MQTT client of paho, at a broker of either kind."""

    def __init__(self, mixed: Mixed, domain: str, name: str, *, clean: bool = True) -> None:
        self._port = mixed.launched.endpoints[domain].head.mqtt_port or 0
        keys = DomainKeys(Path(mixed.launched.endpoints[domain].keys)).client("client")
        self.arrived: list[tuple[str, bytes, int, bool]] = []
        self.client = paho.Client(
            CallbackAPIVersion.VERSION2, client_id=name, protocol=paho.MQTTv311, clean_session=clean
        )
        self.client.username_pw_set(keys.name, keys.password.read_text().strip())
        self.client.tls_set(str(keys.trusted))
        self.client.on_message = lambda _c, _d, m: self.arrived.append(
            (m.topic, bytes(m.payload), m.qos, m.retain)
        )

    async def __aenter__(self) -> Device:
        def connect() -> None:
            self.client.connect("127.0.0.1", self._port)
            self.client.loop_start()

        await asyncio.to_thread(connect)
        await eventually(self._connected, "the device should be connected")
        return self

    async def __aexit__(self, *_: object) -> None:
        self.client.disconnect()
        await asyncio.to_thread(self.client.loop_stop)

    async def _connected(self) -> bool:
        return self.client.is_connected()

    async def publish(self, topic: str, payload: bytes, qos: int, *, retain: bool = False) -> None:
        told = self.client.publish(topic, payload, qos, retain)
        await asyncio.to_thread(told.wait_for_publish, 20)

    async def reach(self, count: int) -> None:
        async def enough() -> bool:
            return len(self.arrived) >= count

        await eventually(enough, f"{count} messages should come to the device, not {self.arrived}")


async def test_mqtt_clients_of_brokers_of_both_kinds_hear_each_other(mixed: Mixed, geneva: Client) -> None:
    """Wildcards and QoS 1 both ways; what is retained stays with its broker, and comes as a message."""
    async with Device(mixed, "geneva", "d-geneva") as there, Device(mixed, "tokyo", "d-tokyo") as here:
        there.client.subscribe("farm/+/level", 1)
        here.client.subscribe("town/#", 1)
        await mixed.knows_interest("geneva", "tokyo", 2)
        await eventually_known(mixed, "tokyo", "geneva")
        await here.publish("farm/7/level", b"12", 1)
        await here.publish("farm/8/level", b"13", 1, retain=True)
        await there.publish("town/a/b", b"x", 1)
        await there.publish("town", b"y", 1, retain=True)
        await there.reach(2)
        await here.reach(2)
        assert sorted(each[:3] for each in there.arrived) == [
            ("farm/7/level", b"12", 1),
            ("farm/8/level", b"13", 1),
        ]
        assert sorted(each[:3] for each in here.arrived) == [("town", b"y", 1), ("town/a/b", b"x", 1)]
        async with Device(mixed, "tokyo", "late-tokyo") as late:
            late.client.subscribe("farm/8/level", 1)
            await late.reach(1)
            assert late.arrived == [("farm/8/level", b"13", 1, True)]
        await here.publish("farm/8/level", b"", 1, retain=True)
        await there.publish("town", b"", 1, retain=True)


async def eventually_known(mixed: Mixed, knower: str, of: str) -> None:
    async def known() -> bool:
        status = await mixed.gateway(knower)
        endpoints = mixed.launched.endpoints[knower]
        return status.interest.get(of, 0) > 0 and await brokers_follow(endpoints, status)

    await eventually(known, f"{knower} should know what {of} wants")


async def test_a_session_of_mqtt_that_is_away_keeps_what_comes_from_other_domains(
    mixed: Mixed, geneva: Client
) -> None:
    async with Device(mixed, "tokyo", "sleeper", clean=False) as device:
        device.client.subscribe("dream/+", 1)
        await mixed.knows_interest("geneva", "tokyo", 1)
    await geneva.publish("dream.one", b"while away")
    await geneva.flush()
    async with Device(mixed, "tokyo", "sleeper", clean=False) as device:
        await device.reach(1)
        assert device.arrived[0][:3] == ("dream/one", b"while away", 1)
    async with Device(mixed, "tokyo", "sleeper"):  # a clean session forgets
        await mixed.knows_interest("geneva", "tokyo", 0)


class Stomp:
    """A client by hand: the protocol is lines of text."""

    def __init__(self, mixed: Mixed) -> None:
        self._mixed = mixed
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def __aenter__(self) -> Stomp:
        device = self._mixed.device
        tls = ssl.create_default_context(cafile=str(device.trusted))
        port = self._mixed.broker.stomp_port
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
        shown = f"passcode:{device.password.read_text().strip()}"
        self.say("CONNECT", "accept-version:1.2", "host:/", f"login:{device.name}", shown)
        assert (await self.hear()).startswith("CONNECTED")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    def say(self, *lines: str, body: str = "") -> None:
        self._writer.write(("\n".join(lines) + "\n\n" + body + "\0\n").encode())

    async def hear(self) -> str:
        async with asyncio.timeout(20):
            return (await self._reader.readuntil(b"\0")).decode().strip("\n\0")

    async def done(self, *lines: str, body: str = "") -> None:
        """Say something, and wait until the broker has taken it."""
        self.say(*lines, "receipt:r", body=body)
        assert (await self.hear()).startswith("RECEIPT")


async def test_a_stomp_client_of_the_broker_takes_part(mixed: Mixed, geneva: Client) -> None:
    heard = Heard()
    await geneva.subscribe("stomp.geneva", cb=heard.take)
    async with Stomp(mixed) as client:
        await client.done("SUBSCRIBE", "id:1", "destination:/topic/stomp.tokyo.*")
        await mixed.knows_interest("tokyo", "geneva", 1)
        await mixed.knows_interest("geneva", "tokyo", 1)
        await client.done("SEND", "destination:/topic/stomp.geneva", "colour:red", body="hello")
        await geneva.publish("stomp.tokyo.x", b"konnichiwa")
        message = await client.hear()
        assert message.startswith("MESSAGE")
        assert "destination:/topic/stomp.tokyo.x" in message
        assert message.endswith("konnichiwa")
        await heard.reach(1)
        assert heard[0].data == b"hello"
        assert (heard[0].headers or {})["colour"] == "red"


async def test_a_stomp_client_asks_and_serves_and_comes_back(mixed: Mixed, geneva: Client) -> None:
    async def answer(message: Msg) -> None:
        await message.respond(b"yes")

    await geneva.subscribe("ask.stomp", cb=answer)
    await mixed.knows_interest("tokyo", "geneva", 1)
    durable = ("SUBSCRIBE", "id:kept", "destination:/topic/stomp.kept", "durable:true", "auto-delete:false")
    async with Stomp(mixed) as client:
        client.say(
            "SEND", "destination:/topic/ask.stomp", "reply-to:/temp-queue/a", "correlation-id:q-1", body="?"
        )
        answered = await client.hear()
        assert "correlation-id:q-1" in answered
        assert answered.endswith("yes")
        await client.done(*durable)
        await mixed.knows_interest("geneva", "tokyo", 1)
    async with amqp_clients(mixed.how) as (maker,), Stomp(mixed) as client:
        await geneva.publish("stomp.kept", b"while away")
        queue = await maker.queue(name="stomp-crew")
        await maker.run(lambda: maker.channel.queue_bind(queue, "mangrove.groups", "stomp.jobs"))
        await mixed.knows_interest("geneva", "tokyo", 2)
        client.say("SUBSCRIBE", "id:2", f"destination:/amq/queue/{queue}", "ack:client")
        await geneva.publish("stomp.jobs", b"a job")
        job = await client.hear()
        assert job.endswith("a job")
        acknowledged = next(line for line in job.splitlines() if line.startswith("ack:"))
        await client.done("ACK", f"id:{acknowledged.removeprefix('ack:')}")
        client.say(*durable)
        assert (await client.hear()).endswith("while away")
        await client.done("UNSUBSCRIBE", "id:kept", *durable[2:])
        await maker.run(lambda: maker.channel.queue_delete(queue))
    await mixed.knows_interest("geneva", "tokyo", 0)


async def test_what_nobody_wants_anywhere_is_returned_if_it_is_mandatory(
    mixed: Mixed, geneva: Client, tokyo: AmqpClient
) -> None:
    heard = Heard()
    await geneva.subscribe("wanted.there", cb=heard.take)
    await mixed.knows_interest("tokyo", "geneva", 1)

    def publish(key: str) -> None:
        tokyo.channel.basic_publish("amq.topic", key, b"", mandatory=True)

    await tokyo.run(lambda: publish("wanted.there"))
    await heard.reach(1)
    with pytest.raises(pika.exceptions.UnroutableError):
        await tokyo.run(lambda: publish("wanted.nowhere"))


async def test_rules_and_gateways_queues_are_kept_by_the_broker(mixed: Mixed) -> None:
    """What a client may not do closes its channel, so each has a connection of its own."""

    def tried(work: Callable[[Any], Any], how: Any) -> str:
        try:
            connection = pika.BlockingConnection(how)
        except pika.exceptions.AMQPConnectionError as error:
            return type(error).__name__
        try:
            channel = connection.channel()
            channel.confirm_delivery()
            work(channel)
            return ""
        except pika.exceptions.ChannelClosedByBroker as error:
            return str(error.reply_code)
        finally:
            connection.close()

    def bind(channel: Any, key: str, exchange: str = "amq.topic") -> None:
        channel.queue_bind(channel.queue_declare("", exclusive=True).method.queue, exchange, key)

    how = mixed.how
    wrong = parameters(mixed.broker, mixed.device, password="guess")
    results = [
        await asyncio.to_thread(tried, lambda c: c.basic_publish("amq.topic", "open.x", b""), how),
        await asyncio.to_thread(tried, lambda c: c.basic_publish("amq.topic", "secret.x", b""), how),
        await asyncio.to_thread(tried, lambda c: bind(c, "secret.#"), how),
        await asyncio.to_thread(tried, lambda c: bind(c, "hidden.x"), how),
        await asyncio.to_thread(tried, lambda c: bind(c, "hidden.x", "mangrove.groups"), how),
        await asyncio.to_thread(tried, lambda c: c.basic_publish("mangrove.groups", "open.x", b""), how),
        await asyncio.to_thread(tried, lambda c: c.basic_get("mangrove.gateway-tokyo"), how),
        await asyncio.to_thread(
            tried, lambda c: c.queue_bind(c.queue_declare("", exclusive=True).method.queue, EVENTS, "#"), how
        ),
        await asyncio.to_thread(tried, lambda c: None, wrong),
    ]
    assert results == ["", "403", "", "403", "403", "403", "403", "403", "ProbableAuthenticationError"]


EVENTS = "amq.rabbitmq.event"


async def test_the_sdk_logs_in_and_is_told_what_it_may_not_do(mixed: Mixed, tmp_path: Path) -> None:
    """A refusal closes a channel at a RabbitMQ; nothing else of the connection is disturbed."""
    where = mixed.launched.directory
    async with (
        mangrove.connect(run_dir=where, domain="tokyo") as tokyo,
        mangrove.connect(run_dir=where, domain="geneva") as geneva,
    ):
        here, there = await tokyo.subscribe("open.geneva"), await geneva.subscribe("open.tokyo")
        await here.ready()
        await there.ready()
        with pytest.raises(mangrove.NotAllowedError, match=r"to subscribe to hidden\.x"):
            await tokyo.subscribe("hidden.x")
        await tokyo.publish("open.tokyo", b"before")
        await tokyo.publish("secret.x", b"not allowed")
        await tokyo.publish("open.tokyo", b"after")
        with pytest.raises(mangrove.NotAllowedError, match=r"to publish on secret\.x"):
            await tokyo.flush()
        with pytest.raises(mangrove.NotAllowedError):
            await tokyo.publish("secret.x", b"again")
        await geneva.publish("open.geneva", b"still here")
        assert (await here.next(timeout=20)).data == b"still here"
        got = [(await there.next(timeout=20)).data]
        while got[-1] != b"after":
            got.append((await there.next(timeout=20)).data)
        assert dict.fromkeys(got) == dict.fromkeys([b"before", b"after"])
    device = shutil.copytree(mixed.device.path, tmp_path / "client")
    (device / "password").write_text("guessed")
    (device / "password").chmod(0o600)
    with pytest.raises(mangrove.LoginError, match="ACCESS_REFUSED"):
        await mangrove.connect(mixed.broker.client_url, credentials=device)


async def test_a_queue_that_is_somebodys_alone_is_no_group_and_harms_nobody(mixed: Mixed) -> None:
    async with amqp_clients(mixed.how) as (client,):
        queue = await client.queue()
        await client.run(lambda: client.channel.queue_bind(queue, "mangrove.groups", "mine.alone"))

        async def told() -> bool:
            return (
                "queue of a group that the gateway could not be bound to"
                in (await mixed.gateway("tokyo")).ignored
            )

        await eventually(told, "the gateway should tell what it leaves out")
    assert (await mixed.gateway("tokyo")).head_connected


async def test_a_new_client_comes_in_and_a_revoked_one_is_sent_away(mixed: Mixed) -> None:
    keys = mixed.launched.keys
    assert keys is not None
    how = parameters(mixed.broker, issue_client(keys, "tokyo", "anna"))

    async def comes_in() -> bool:
        try:
            await asyncio.to_thread(lambda: pika.BlockingConnection(how).close())
        except pika.exceptions.AMQPConnectionError:
            return False
        return True

    await eventually(comes_in, "the broker should be told of a new client")
    async with amqp_clients(how) as (anna,):
        revoke(keys, "tokyo", client="anna")

        async def sent_away() -> bool:
            def heard_nothing_else() -> bool:
                try:
                    anna.channel.connection.process_data_events(0)
                except pika.exceptions.AMQPError:
                    return True
                return False

            return await anna.run(heard_nothing_else)

        await eventually(sent_away, "a revoked client should be disconnected")
    assert not await comes_in()
    assert (await mixed.gateway("tokyo")).head_connected


async def test_status_shows_the_broker(mixed: Mixed) -> None:
    endpoints = mixed.launched.endpoints["tokyo"]
    async with ManagementConnection(endpoints) as management:
        status = await inspect_domain(endpoints, management)
    head = next(broker for broker in status.brokers if broker.role == "head")
    assert head.reachable
    assert head.version.startswith("3.") or head.version.startswith("4.")
    assert head.url.startswith("amqps://")
    assert head.connections >= 2
    names = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            # Every minute the broker runs a command for a moment that has an Erlang of its own.
            if not any("epmd-starter" in word for word in process.cmdline()):
                names.append(process.name())
    assert names.count("beam.smp") == 1
    assert "epmd" not in names


def epmds() -> set[int]:
    return {process.pid for process in psutil.process_iter(["name"]) if process.info["name"] == "epmd"}


def test_not_even_whom_rabbitmq_starts_for_that_starts_an_epmd(tmp_path: Path) -> None:
    """Every minute it runs this command, so that there be one; told nothing, it leaves a daemon behind."""
    there = epmds()
    starter = [
        "erl",
        "-boot",
        "no_dot_erlang",
        "-sname",
        "epmd-starter-1",
        "-noinput",
        "-s",
        "erlang",
        "halt",
    ]
    subprocess.run(["/usr/bin/env", *environment("b", 1234, tmp_path), *starter], check=True, timeout=30)
    assert not epmds() - there


async def test_what_a_broker_lacks_is_told_with_its_remedy(mixed: Mixed) -> None:
    problem = kind_of(BrokerKind.RABBITMQ).attach_problem
    home = mixed.launched.run.broker_home("tokyo-head")
    access = read_access(home)
    assert access is not None
    tls = ssl.create_default_context(cafile=access.authorities)
    url = f"amqps://127.0.0.1:{mixed.broker.client_port}"
    pages = f"management={access.management}"

    def as_host(password: str = access.password) -> LoginSource:
        return lambda: BrokerLogin(user="host", password=password, tls=tls, ours=False)

    there = RabbitAddress(
        host="127.0.0.1", port=0, user="host", password=access.password, management=access.management
    )
    await fetch(there, "/api/vhosts/other", tls, method="PUT", content=b"{}")
    everything = b'{"configure":".*","write":".*","read":".*"}'
    await fetch(there, "/api/permissions/other/host", tls, method="PUT", content=everything)

    assert await problem(f"{url}/?{pages}", as_host()) == ""
    other = await problem(f"{url}/other?{pages}", as_host())
    assert "rabbitmq-plugins enable rabbitmq_event_exchange" in other
    assert "check `credentials`" in await problem(f"{url}/?{pages}", as_host("wrong"))
    assert "no virtual host 'none'" in await problem(f"{url}/none?{pages}", as_host())
    assert "no exchange 'lost'" in await problem(f"{url}/?exchange=lost&{pages}", as_host())
    fanout = await problem(f"{url}/?exchange=amq.fanout&{pages}", as_host())
    assert "'amq.fanout' is of type fanout" in fanout
    assert "name one of type topic" in fanout
    await fetch(
        there, "/api/users/narrow", tls, method="PUT", content=b'{"password":"n","tags":"monitoring"}'
    )
    own = b'{"configure":"^own","write":".*","read":".*"}'
    await fetch(there, "/api/permissions/%2F/narrow", tls, method="PUT", content=own)

    def narrow() -> BrokerLogin:
        return BrokerLogin(user="narrow", password="n", tls=tls, ours=False)

    assert "set_permissions -p / narrow" in await problem(f"{url}/?{pages}", narrow)
    await fetch(there, "/api/users/narrow", tls, method="DELETE")
    assert "enable rabbitmq_management" in await problem(f"{url}/?management=http://127.0.0.1:1", as_host())
    nats = mixed.launched.endpoints["geneva"].head.client_port
    assert "not as an AMQP 0-9-1 broker" in await problem(f"amqp://127.0.0.1:{nats}")
    nobody = await problem("amqp://127.0.0.1:1")
    assert "cannot be reached" in nobody
    assert "is it running" in nobody


async def test_what_is_published_while_the_gateway_restarts_waits_for_it(
    mixed: Mixed, geneva: Client, tokyo: AmqpClient
) -> None:
    heard = Heard()
    await geneva.subscribe("patient.>", cb=heard.take)
    await mixed.knows_interest("tokyo", "geneva", 1)
    gateway = mixed.launched.sites["tokyo"].gateway
    assert gateway.pid is not None
    os.kill(gateway.pid, signal.SIGKILL)
    bodies = [b"%d" % number for number in range(100)]
    await tokyo.publish("patient.one", *bodies)
    await heard.reach(100)
    assert [each.data for each in heard] == bodies
    await mixed.links_up()


async def test_nothing_accepted_is_lost_when_the_broker_is_killed(mixed: Mixed, geneva: Client) -> None:
    """Two clients that we did not write publish with confirms; durable queues are filled, one of a group."""
    heard: Counter[bytes] = Counter()

    async def count(message: Msg) -> None:
        heard[message.data] += 1

    await geneva.subscribe("load.tokyo.*", cb=count)
    async with amqp_clients(mixed.how) as (keeper,):
        await keeper.queue("load.geneva", name="keeper")
        await keeper.queue(name="crew")
        await keeper.run(lambda: keeper.channel.queue_bind("crew", "mangrove.groups", "load.geneva"))
    await mixed.knows_interest("tokyo", "geneva", 1)
    script = steady_script(
        mixed.broker, mixed.device, publish="load.tokyo.js", queue="consumed", bind="load.geneva"
    )
    async with script as other:
        await mixed.knows_interest("geneva", "tokyo", 2)
        publisher = SteadyPublisher(mixed.how)
        publisher.start()
        process = mixed.launched.sites["tokyo"].brokers["tokyo-head"]
        restarts, sent = process.restarts, 0

        async def until(done: Callable[[], bool]) -> None:
            nonlocal sent
            deadline = time.monotonic() + 60
            while not done() and time.monotonic() < deadline:
                for _ in range(4):
                    await geneva.publish("load.geneva", b"%d" % sent)
                    sent += 1
                await asyncio.sleep(0.02)

        def both_confirmed(more: int) -> Callable[[], bool]:
            ours, others = len(publisher.confirmed) + more, other.confirmed + more
            return lambda: len(publisher.confirmed) > ours and other.confirmed > others

        await until(both_confirmed(200))
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        both = both_confirmed(200)
        await until(lambda: process.restarts > restarts and both())
        publisher.end()
        other.tell(stop=True)
        assert process.restarts == restarts + 1
        assert publisher.broken >= 1
        told = await other.finish(sent)

    assert told["broken"] >= 1
    missing = {str(number) for number in range(sent)} - told["heard"].keys()
    assert not missing, f"{len(missing)} of {sent} never came to who consumes"
    confirmed = publisher.confirmed | {body.encode() for body in told["confirmed"]}

    async def all_heard() -> bool:
        return confirmed <= heard.keys()

    await eventually(all_heard, "all that was confirmed should come to geneva")
    async with amqp_clients(mixed.how) as (keeper,):
        for queue in ("keeper", "crew"):
            got = {int(each.body) for each in await keeper.take(queue, sent, timeout_s=30)}
            lost = set(range(sent)) - got
            assert not lost, f"{len(lost)} of {sent} were lost on their way into {queue}"
        for queue in ("keeper", "crew", "consumed"):
            await keeper.run(lambda name=queue: keeper.channel.queue_delete(name))  # type: ignore[misc]
    # Who repeats what was not confirmed makes copies himself; the gateway adds none of what has an id.
    assert heard.total() - len(heard) <= publisher.repeated + told["repeated"]


class SteadyPublisher(threading.Thread):
    """Publishes persistent messages, each until it is confirmed, whatever happens to the broker."""

    def __init__(self, how: Any) -> None:
        super().__init__(daemon=True)
        self._how = how
        self._ending = threading.Event()
        self.confirmed: set[bytes] = set()
        self.repeated = 0
        self.broken = 0

    def run(self) -> None:
        number = 0
        while not self._ending.is_set():
            try:
                connection = pika.BlockingConnection(self._how)
                channel = connection.channel()
                channel.confirm_delivery()
                while not self._ending.is_set():
                    body = b"%d" % number
                    described = pika.BasicProperties(delivery_mode=2, message_id=str(number))
                    channel.basic_publish("amq.topic", "load.tokyo.pika", body, described)
                    self.confirmed.add(body)
                    number += 1
                connection.close()
            except (pika.exceptions.AMQPError, OSError):
                self.broken += 1
                self.repeated += 1
                time.sleep(0.1)

    def end(self) -> None:
        self._ending.set()
        self.join(30)
