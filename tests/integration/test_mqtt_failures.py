"""MQTT clients while brokers and gateways are killed: what is kept, what comes twice, who tries again."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable
from itertools import count
from pathlib import Path

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from tests.kit import secured_runs
from tests.kit.bare_sockets import mqtt_connect, mqtt_socket, nats_socket
from tests.kit.mqtt_clients import MqttError, PahoClient
from tests.kit.running import Running
from tests.kit.waiting import eventually

from mangrove.broker.nats.configuration.data_broker import data_broker_config
from mangrove.broker.nats.leaf_subscriptions import leaf_subscriptions
from mangrove.broker.nats.monitoring import broker_status
from mangrove.broker.nats.server import nats_server, nats_server_binary
from mangrove.config import parse_federation
from mangrove.host.ports import PortReservation
from mangrove.host.process import ManagedProcess
from mangrove.model.endpoints import BrokerEndpoints
from mangrove.model.shared_names import GATEWAY_READY, gateway_process
from mangrove.model.subjects import matches
from mangrove.testbed.local_federation import LocalFederation

FEDERATION = """
federation: failures
domains:
  west: {location: [47.61, -122.33], edges: 1}
  east: {location: [39.74, -104.99], edges: 1}
links:
  - {between: [west, east], delay_ms: 2}
"""

PAUSE_S = 0.005
"""Some 200 messages each second."""
SETTLE_S = 0.3
REDELIVERY_S = 45.0
"""nats-server sends again what was not acknowledged for 30 s."""
NUMBERS = count()


class Persistent:
    """A client of paho's with a kept session that reconnects by itself, as applications have them."""

    def __init__(self, port: int, qos: int = 0, topic: str = "") -> None:
        """With a `topic`, it subscribes to it when it has no session yet."""
        self.arrived: list[int] = []
        self.sessions: list[bool] = []
        self.acknowledged = 0
        self.ready = asyncio.Event()
        self._wanted = (topic, qos)
        self._loop = asyncio.get_running_loop()
        self._client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id=f"persistent-{next(NUMBERS)}",
            clean_session=False,
            protocol=paho.MQTTv311,
        )
        self._client.reconnect_delay_set(1, 1)
        self._client.max_inflight_messages_set(100)
        self._client.on_connect = self._connected
        self._client.on_subscribe = self._subscribed
        self._client.on_message = lambda _c, _d, message: self.arrived.append(int(message.payload))
        self._client.on_publish = self._published
        self._client.connect("127.0.0.1", port, 60)
        self._client.loop_start()

    def publish(self, topic: str, number: int, qos: int) -> None:
        """Hand a message to the library, which sees to the rest."""
        self._client.publish(topic, b"%d" % number, qos)

    def cut(self) -> None:
        """Break the connection; the library makes another one."""
        made = self._client.socket()
        assert isinstance(made, socket.socket)
        made.shutdown(socket.SHUT_RDWR)

    async def close(self) -> None:
        self._client.disconnect()
        await asyncio.to_thread(self._client.loop_stop)

    def _connected(self, _client: paho.Client, _data: object, flags: paho.ConnectFlags, *_: object) -> None:
        self.sessions.append(flags.session_present)
        topic, qos = self._wanted
        if topic and not flags.session_present:
            self._client.subscribe(topic, qos)
        elif not topic:
            self._subscribed()

    def _subscribed(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self.ready.set)

    def _published(self, *_: object) -> None:
        self.acknowledged += 1


@pytest.fixture(scope="module")
async def failing(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    federation = parse_federation(FEDERATION, "failures").require()
    directory = tmp_path_factory.mktemp("state") / "failures"
    async with LocalFederation(federation, directory, ephemeral=True) as launched:
        running = Running(launched)
        await running.links_up()
        yield running


def mqtt_port(running: Running, domain: str, *, edge: bool = False) -> int:
    endpoints = running.launched.endpoints[domain]
    port = (endpoints.edges[0] if edge else endpoints.head).mqtt_port
    assert port is not None
    return port


def kill(process: ManagedProcess) -> None:
    """Kill a process; its supervisor brings it back."""
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)


async def pair(running: Running, qos: int, *, edge: bool = False) -> tuple[str, Persistent, Persistent]:
    """A publisher in the west and a subscriber in the east that it reaches."""
    topic = f"f{next(NUMBERS)}"
    subscriber = Persistent(mqtt_port(running, "east", edge=edge), qos, topic)
    publisher = Persistent(mqtt_port(running, "west"))
    for client in (subscriber, publisher):
        await asyncio.wait_for(client.ready.wait(), 20)
    await wanted_in_the_east(running, topic)
    return topic, publisher, subscriber


async def wanted_in_the_east(running: Running, topic: str) -> None:
    async def known() -> bool:
        leaves = await leaf_subscriptions(running.launched.endpoints["west"].head)
        return any(matches(pattern, topic) for leaf in leaves for pattern in leaf)

    await eventually(known, "the west should know that somebody wants it")


async def stream(
    publisher: Persistent,
    topic: str,
    qos: int,
    events: dict[int, Callable[[], None]],
    total: int,
    first: int = 0,
) -> None:
    for number in range(first, total):
        publisher.publish(topic, number, qos)
        if number in events:
            events[number]()
        await asyncio.sleep(PAUSE_S)


async def until(condition: Callable[[], bool], what: str, timeout_s: float = REDELIVERY_S) -> None:
    async def so() -> bool:
        return condition()

    await eventually(so, what, timeout_s)


async def test_qos_2_is_exact_though_the_subscribers_gateway_is_killed(failing: Running) -> None:
    topic, publisher, subscriber = await pair(failing, 2)
    gateway = failing.launched.sites["east"].gateway
    await stream(publisher, topic, 2, {200: lambda: kill(gateway)}, 1_000)
    await until(lambda: len(subscriber.arrived) >= 1_000, "all should come")
    await asyncio.sleep(SETTLE_S)
    assert subscriber.arrived == list(range(1_000)), "each once, in order"
    await failing.links_up()
    for client in (publisher, subscriber):
        await client.close()


async def test_nothing_comes_twice_when_the_publishers_gateway_is_killed(failing: Running) -> None:
    """What is published while nobody carries it stays in its domain; the acknowledgement says no more."""
    topic, publisher, subscriber = await pair(failing, 2)
    gateway = failing.launched.sites["west"].gateway
    await stream(publisher, topic, 2, {}, 190)
    await until(lambda: len(subscriber.arrived) >= 190, "what is published while all live should come")
    await stream(publisher, topic, 2, {199: lambda: kill(gateway)}, 200, first=190)
    await failing.links_up()
    await until(lambda: publisher.acknowledged == 200, "the publisher's own broker has everything")

    def last() -> bool:
        publisher.publish(topic, 10_000, 2)
        return 10_000 in subscriber.arrived

    await until(last, "the way should be open again")
    before = [number for number in subscriber.arrived if number < 10_000]
    assert before == sorted(set(before)), "nothing comes twice, and all in order"
    assert before[:190] == list(range(190)), "what was published before is not lost"
    for client in (publisher, subscriber):
        await client.close()


@pytest.mark.parametrize("qos", [1, 2])
async def test_no_message_is_lost_when_the_subscribers_head_broker_is_killed(
    failing: Running, qos: int
) -> None:
    """nats-server hands again what it was handing over when it was killed: it forgets the packet's number."""
    topic, publisher, subscriber = await pair(failing, qos)
    head = failing.launched.sites["east"].brokers["east-head"]
    await stream(publisher, topic, qos, {200: lambda: kill(head)}, 1_000)
    await until(lambda: len(set(subscriber.arrived)) == 1_000, "all should come")
    assert subscriber.sessions[0] is False
    assert all(subscriber.sessions[1:]), "its session is kept"
    again = Counter(subscriber.arrived)
    assert sum(again.values()) - 1_000 <= 20, "no more than what was under way"
    for client in (publisher, subscriber):
        await client.close()
    assert (await failing.gateway("east")).dropped == {}


@pytest.mark.skipif(secured_runs.WANTED, reason="with keys only a gateway, as a leaf node, writes there")
async def test_a_store_leaves_out_what_it_has_though_it_was_killed_in_between(failing: Running) -> None:
    """What the gateway's writing again relies on: JetStream knows the ids of what it has stored."""
    topic, name = f"f{next(NUMBERS)}", f"away-{next(NUMBERS)}"
    head, broker = (
        failing.launched.endpoints["east"].head,
        failing.launched.sites["east"].brokers["east-head"],
    )
    port = mqtt_port(failing, "east")
    absent = PahoClient(name)
    await absent.connect(port, clean=False)
    await absent.subscribe(topic, 2)
    await absent.disconnect()
    header = b"NATS/1.0\r\nNmqtt-Pub:2\r\nNats-Msg-Id:0123456789\r\n\r\n"
    for killed in (True, False):
        reader, writer = await nats_socket(head.client_port, headers=True)
        writer.write(b"SUB confirmed 1\r\n")
        sizes = b"%d %d" % (len(header), len(header) + 3)
        writer.write(b"HPUB $MQTT.msgs.%b confirmed %b\r\n%bone\r\n" % (topic.encode(), sizes, header))
        await asyncio.wait_for(reader.readuntil(b"MSG confirmed"), 10)
        writer.close()
        if killed:
            await broker.kill()
            await broker.start()
    back = PahoClient(name)
    assert await back.connect(port, clean=False) is True
    await until(lambda: len(back.arrived) >= 1, "the message should be there")
    await asyncio.sleep(SETTLE_S)
    assert [each.payload for each in back.arrived] == [b"one"], "once"
    await back.disconnect()


@pytest.mark.parametrize("qos", [1, 2])
async def test_a_client_at_an_edge_finds_its_session_after_the_head_was_killed(
    failing: Running, qos: int
) -> None:
    """It loses its connection while the head is away, and gets through again by its own trying."""
    topic, publisher, subscriber = await pair(failing, qos, edge=True)
    head = failing.launched.sites["east"].brokers["east-head"]
    await stream(publisher, topic, qos, {}, 20)
    await until(lambda: len(subscriber.arrived) == 20, "the first should come")
    await head.kill()
    subscriber.cut()
    await asyncio.sleep(1.5)  # it has begun to try again
    await head.start()
    await until(lambda: len(subscriber.sessions) == 2, "it should be back")
    assert subscriber.sessions == [False, True]
    await wanted_in_the_east(failing, topic)
    for number in range(20, 200):
        publisher.publish(topic, number, qos)
    await until(lambda: set(subscriber.arrived) == set(range(200)), "all of the rest should come")
    await asyncio.sleep(SETTLE_S)
    after = [number for number in subscriber.arrived if number >= 20]
    assert after == list(range(20, 200)), "each once; only of what came before the kill may some come again"
    for client in (publisher, subscriber):
        await client.close()


async def test_qos_2_is_exact_though_the_head_dies_before_a_message_is_released(failing: Running) -> None:
    """The edge can then not look the message up; it must not acknowledge what it does not deliver."""
    topic = b"f%03d" % next(NUMBERS)
    head = failing.launched.sites["east"].brokers["east-head"]
    port = mqtt_port(failing, "east", edge=True)
    subscriber = PahoClient(f"exact-{next(NUMBERS)}")
    await subscriber.connect(port, clean=False)
    await subscriber.subscribe(topic.decode(), 2)
    connect = mqtt_connect(port, "q2", clean=False)
    publish = b"\x34\x0b\x00\x04%b\x00\x07one" % topic
    received, release, complete = b"\x50\x02\x00\x07", b"\x62\x02\x00\x07", b"\x70\x02\x00\x07"

    reader, writer = await mqtt_socket(port)
    writer.write(connect)
    assert await reader.readexactly(4) == b"\x20\x02\x00\x00"
    writer.write(publish)
    assert await reader.readexactly(4) == received
    await head.kill()
    writer.write(release)
    await asyncio.sleep(SETTLE_S)
    await head.start()
    assert await asyncio.wait_for(reader.read(), 15) == b"", "closed without an acknowledgement"
    writer.close()
    assert subscriber.arrived == []

    reader, writer = await mqtt_socket(port)
    writer.write(connect)
    assert await reader.readexactly(4) == b"\x20\x02\x01\x00", "the session is there"
    for _ in range(2):
        writer.write(release)
        assert await asyncio.wait_for(reader.readexactly(4), 15) == complete
    await until(lambda: len(subscriber.arrived) >= 1, "it should come")
    await asyncio.sleep(SETTLE_S)
    assert [each.payload for each in subscriber.arrived] == [b"one"], "once"
    writer.close()
    await subscriber.disconnect()


async def test_whoever_connects_when_the_edge_is_attached_again_is_let_in(failing: Running) -> None:
    edge = failing.launched.endpoints["east"].edges[0]
    head = failing.launched.sites["east"].brokers["east-head"]

    async def attached() -> bool:
        return (await broker_status(edge, "edge")).attached_to == "east-head"

    for attempt in range(5):
        await head.kill()
        await head.start()
        await eventually(attached, "the edge should find its head again")
        client = PahoClient(f"anew-{attempt}")
        try:
            await client.connect(mqtt_port(failing, "east", edge=True))
        except (MqttError, TimeoutError):
            pytest.fail(f"attempt {attempt} was turned away")
        await client.disconnect()


async def test_an_edge_looks_for_its_head_many_times_a_second(tmp_path: Path) -> None:
    """While they are apart, an MQTT client that connects waits 5 s and is turned away."""
    calls = 0

    async def turn_away(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal calls
        calls += 1
        writer.close()

    ports = PortReservation()
    broker = BrokerEndpoints(name="edge", host="127.0.0.1", client_port=ports.take("127.0.0.1"))
    async with await asyncio.start_server(turn_away, "127.0.0.1", 0) as head:
        port = head.sockets[0].getsockname()[1]
        url = f"nats-leaf://127.0.0.1:{port}"
        config = data_broker_config(
            broker, tmp_path, max_message_bytes=1 << 20, jetstream_domain="d", attach_to=[url]
        )
        edge = nats_server("edge", config, tmp_path)
        try:
            await edge.start()
            await asyncio.sleep(2)
        finally:
            await edge.stop()
            ports.release()
    assert calls > 10


async def test_a_site_is_up_when_its_edges_are_attached(tmp_path: Path) -> None:
    """An MQTT client that came before would be turned away."""
    ports = PortReservation()
    client, leaf = ports.take("127.0.0.1"), ports.take("127.0.0.1")
    federation = parse_federation(
        f"""
federation: late
domains:
  theirs:
    edges: 1
    external: {{head: "nats://127.0.0.1:{client}", leaf: "nats-leaf://127.0.0.1:{leaf}"}}
""",
        "late",
    ).require()
    config = tmp_path / "late.conf"
    config.write_text(f'listen: "127.0.0.1:{client}"\nleafnodes {{ listen: "127.0.0.1:{leaf}" }}\n')
    launched = LocalFederation(federation, tmp_path / "state", ephemeral=True)
    starting = asyncio.create_task(launched.start())
    log = launched.run.log(gateway_process("theirs"))

    async def gateway_runs() -> bool:
        return log.exists() and GATEWAY_READY in log.read_text()

    broker = None
    try:
        await eventually(gateway_runs, "the gateway should start")
        await asyncio.sleep(1)
        assert not starting.done(), "the edge has no head yet"
        broker = await asyncio.create_subprocess_exec(
            nats_server_binary(), "--config", str(config), stderr=asyncio.subprocess.DEVNULL
        )
        await starting
        assert (await broker_status(launched.endpoints["theirs"].edges[0], "edge")).attached_brokers == 1
    finally:
        starting.cancel()
        await launched.stop()
        if broker is not None:
            broker.kill()
            await broker.wait()
        ports.release()
