"""MQTT 3.1.1 between any two brokers, with clients of two makers: exact counts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from itertools import count

import nats
import pytest
from tests.kit.bare_sockets import heard_out, mqtt_connect, mqtt_socket, nats_socket
from tests.kit.mqtt_clients import Arrival, JsClients, MqttClient, MqttError, PahoClient, Will, js_clients
from tests.kit.running import Running
from tests.kit.waiting import eventually

from mangrove.broker.nats.leaf_subscriptions import leaf_subscriptions
from mangrove.broker.nats.monitoring import fetch
from mangrove.config import parse_federation
from mangrove.gateway.retained import ODD_SUBJECT, SESSION_KEPT
from mangrove.model.endpoints import BrokerEndpoints
from mangrove.model.subjects import MAX_SUBJECT_BYTES, matches
from mangrove.testbed.local_federation import LocalFederation

FEDERATION = """
federation: matrix
domains:
  west: {location: [47.61, -122.33], edges: 2}
  east: {location: [39.74, -104.99], edges: 1}
links:
  - {between: [west, east], delay_ms: 2}
topics:
  - {match: "plant.>", scope: domain}
max_message_bytes: 65536
"""

LIBRARIES = [("paho", "paho"), ("js", "js"), ("paho", "js"), ("js", "paho")]
MESSAGES = 10
SETTLE_S = 0.3
"""How long something may still come that must not."""

PLACES = ("west", "west/1", "east", "east/0")

WAYS = {
    "one broker, a head": ("west", "west"),
    "one broker, an edge": ("west/0", "west/0"),
    "head to edge": ("west", "west/0"),
    "edge to head": ("west/0", "west"),
    "edge to edge": ("west/0", "west/1"),
    "head to an edge of another domain": ("west", "east/0"),
    "edge to the head of another domain": ("west/1", "east"),
    "edge to an edge of another domain": ("east/0", "west/0"),
}


@dataclass
class Matrix:
    """The federation, and clients by the dozen."""

    running: Running
    js: JsClients
    numbers: count[int]

    def broker(self, place: str) -> BrokerEndpoints:
        """A head by its domain's name, an edge by its domain's name and number."""
        domain, _, edge = place.partition("/")
        endpoints = self.running.launched.endpoints[domain]
        return endpoints.edges[int(edge)] if edge else endpoints.head

    def client(self, library: str, client_id: str = "") -> MqttClient:
        """A client that is not connected."""
        client_id = client_id or f"client-{next(self.numbers)}"
        return PahoClient(client_id) if library == "paho" else self.js.client(client_id)

    async def connected(
        self,
        place: str,
        library: str = "paho",
        client_id: str = "",
        *,
        clean: bool = True,
        will: Will | None = None,
    ) -> MqttClient:
        """A client at a broker."""
        client = self.client(library, client_id)
        port = self.broker(place).mqtt_port
        assert port is not None
        await client.connect(port, clean=clean, will=will)
        return client

    def topic(self) -> str:
        """A topic that nobody has used."""
        return f"t{next(self.numbers)}"

    async def interest(self, place: str, subject: str) -> None:
        """Wait until a broker knows of somebody elsewhere who wants `subject`."""

        async def known() -> bool:
            leaves = await leaf_subscriptions(self.broker(place))
            return any(matches(pattern, subject) for leaf in leaves for pattern in leaf)

        await eventually(known, f"{place} should know that somebody wants {subject}")

    async def gone(self, place: str, client_id: str) -> None:
        """Wait until a broker has noticed that a client is gone.

        What it still sends to that client comes again only after 30 s, which is nats-server's `ack_wait`.
        """

        async def noticed() -> bool:
            page = await fetch(f"{self.broker(place).monitor_url}/connz?mqtt_client={client_id}")
            return page is not None and b'"num_connections": 0' in page

        await eventually(noticed, f"{place} should notice that {client_id} is gone")

    async def retained(self, place: str, topic: str) -> list[Arrival]:
        """What a new subscriber is given at once."""
        client = await self.connected(place)
        await client.subscribe(topic, 1)
        await asyncio.sleep(SETTLE_S)
        await client.disconnect()
        return client.arrived

    async def retains(self, place: str, topic: str, expected: list[Arrival]) -> None:
        """Wait until that is what a new subscriber is given at once."""

        async def so() -> bool:
            return await self.retained(place, topic) == expected

        await eventually(so, f"a subscriber of {topic} at {place} should be given {expected}")


@pytest.fixture(scope="module")
async def matrix(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Matrix]:
    federation = parse_federation(FEDERATION, "matrix").require()
    directory = tmp_path_factory.mktemp("state") / "matrix"
    async with (
        LocalFederation(federation, directory, ephemeral=True) as launched,
        js_clients() as js,
    ):
        running = Running(launched)
        await running.links_up()
        yield Matrix(running, js, count())


async def all_came(expected: Callable[[], bool], what: str, timeout_s: float = 20.0) -> None:
    """Wait until it is so, and that nothing comes after it."""

    async def so() -> bool:
        return expected()

    await eventually(so, what, timeout_s)
    await asyncio.sleep(SETTLE_S)
    assert expected(), f"{what}, and no more"


@pytest.mark.parametrize(
    "libraries", [("paho", "paho"), ("js", "js"), ("paho", "js"), ("js", "paho")], ids="-".join
)
@pytest.mark.parametrize("way", WAYS)
async def test_all_pairs_of_qos(matrix: Matrix, way: str, libraries: tuple[str, str]) -> None:
    source, destination = WAYS[way]
    topic = matrix.topic()
    publisher = await matrix.connected(source, libraries[0])
    subscribers = [await matrix.connected(destination, libraries[1]) for _ in range(3)]
    assert [await client.subscribe(f"{topic}/#", qos) for qos, client in enumerate(subscribers)] == [0, 1, 2]
    if source != destination:
        await matrix.interest(source, f"{topic}.x")
    for number in range(MESSAGES):
        for qos in range(3):
            await publisher.publish(f"{topic}/{qos}", b"%d" % number, qos)
    for wanted, client in enumerate(subscribers):
        for qos in range(3):
            expected = [
                Arrival(f"{topic}/{qos}", b"%d" % number, min(qos, wanted), False)
                for number in range(MESSAGES)
            ]

            def came(client: MqttClient = client, qos: int = qos) -> list[Arrival]:
                return [each for each in client.arrived if each.topic == f"{topic}/{qos}"]

            await eventually_equal(came, expected)
    await asyncio.sleep(SETTLE_S)
    assert [len(client.arrived) for client in subscribers] == [3 * MESSAGES] * 3
    for client in (publisher, *subscribers):
        await client.disconnect()


async def eventually_equal(found: Callable[[], list[Arrival]], expected: list[Arrival]) -> None:
    async def enough() -> bool:
        return len(found()) >= len(expected)

    await eventually(enough, f"{len(expected)} messages like {expected[0]} should come, not {len(found())}")
    assert found() == expected


@pytest.mark.parametrize("library", ["paho", "js"])
@pytest.mark.parametrize("destination", ["west", "west/1", "east", "east/0"])
async def test_a_will_travels(matrix: Matrix, library: str, destination: str) -> None:
    topic = matrix.topic()
    heir = await matrix.connected(destination)
    await heir.subscribe(topic, 2)
    await matrix.interest("west/0", topic)
    dying = await matrix.connected("west/0", library, will=Will(topic, b"gone", qos=1))
    await dying.abort()
    await all_came(lambda: heir.arrived == [Arrival(topic, b"gone", 1, False)], "the will should come once")
    await heir.disconnect()


@pytest.mark.parametrize("library", ["paho", "js"])
async def test_a_session_moves_with_its_client(matrix: Matrix, library: str) -> None:
    topic, name = matrix.topic(), f"mover-{library}"
    publisher = await matrix.connected("west")
    expected: list[bytes] = []
    for number, place in enumerate(["west/0", "west", "west/1", "west/0"]):
        client = matrix.client(library, name)
        port = matrix.broker(place).mqtt_port
        assert port is not None
        assert await client.connect(port, clean=False) is (number > 0), "all brokers know the session"
        if number == 0:
            assert await client.subscribe(f"{topic}/#", 2) == 2
        await all_came(
            lambda client=client, expected=tuple(expected): (  # type: ignore[misc]
                tuple(each.payload for each in client.arrived) == expected
            ),
            "what was published while the client was away should come once",
        )
        await client.disconnect()
        await matrix.gone(place, name)
        expected = [b"%d.%d" % (number, each) for each in range(10)]
        for payload in expected:
            await publisher.publish(f"{topic}/{len(payload)}", payload, 1 + number % 2)
    last = matrix.client(library, name)
    port = matrix.broker("west").mqtt_port
    assert port is not None
    assert await last.connect(port, clean=True) is False, "a clean session forgets"
    await last.disconnect()
    await publisher.disconnect()
    assert (await matrix.running.gateway("west")).ignored[SESSION_KEPT] >= 1, "its limits are told"


@pytest.mark.parametrize("library", ["paho", "js"])
async def test_the_same_client_ids_at_one_broker_after_another(matrix: Matrix, library: str) -> None:
    for place in ("west", "west/0", "west/1", "west", "east", "east/0", "west/0"):
        topic = matrix.topic()
        subscriber = await matrix.connected(place, library, f"again-{library}", clean=False)
        publisher = await matrix.connected(place, library, f"again-publisher-{library}")
        assert await subscriber.subscribe(f"{topic}/+", 1) == 1
        await publisher.publish(f"{topic}/a", b"1", 1)
        await publisher.publish(f"{topic}/a", b"2", 2)
        await all_came(
            lambda subscriber=subscriber: [each.payload for each in subscriber.arrived] == [b"1", b"2"],  # type: ignore[misc]
            f"both should come at {place}",
        )
        await subscriber.unsubscribe(f"{topic}/+")
        await publisher.publish(f"{topic}/a", b"3", 1)
        await asyncio.sleep(SETTLE_S)
        assert len(subscriber.arrived) == 2, "nothing comes after unsubscribing"
        await subscriber.disconnect()
        await publisher.disconnect()


@pytest.mark.parametrize("library", ["paho", "js"])
@pytest.mark.parametrize("source", ["west", "west/0", "east/0"])
async def test_retained_messages_reach_later_subscribers_everywhere(
    matrix: Matrix, source: str, library: str
) -> None:
    topic = matrix.topic()
    publisher = await matrix.connected(source, library)
    for qos, payload in enumerate([b"first", b"second", b"third"]):
        await publisher.publish(f"{topic}/level", payload, qos, retain=True)
        expected = [Arrival(f"{topic}/level", payload, min(qos, 1), True)]
        for place in PLACES:
            await matrix.retains(place, f"{topic}/#", expected)
    await publisher.publish(f"{topic}/level", b"", 1, retain=True)
    for place in PLACES:
        await matrix.retains(place, f"{topic}/#", [])
    await publisher.disconnect()


async def test_a_retained_message_is_replaced_and_deleted_from_another_domain(matrix: Matrix) -> None:
    topic = matrix.topic()
    west, east = await matrix.connected("west/0"), await matrix.connected("east")
    for publisher, payload in ((west, b"1"), (east, b"2"), (west, b"3"), (east, b"")):
        await publisher.publish(topic, payload, 1, retain=True)
        for place in PLACES:
            await matrix.retains(place, topic, [Arrival(topic, payload, 1, True)] if payload else [])
    await west.disconnect()
    await east.disconnect()


async def test_a_retained_message_stays_where_its_topic_stays(matrix: Matrix) -> None:
    elsewhere = matrix.topic()
    publisher = await matrix.connected("west/0")
    await publisher.publish("plant/valve", b"open", 1, retain=True)
    await publisher.publish(elsewhere, b"seen", 1, retain=True)
    await matrix.retains("east/0", elsewhere, [Arrival(elsewhere, b"seen", 1, True)])
    await matrix.retains("west/1", "plant/#", [Arrival("plant/valve", b"open", 1, True)])
    assert await matrix.retained("east", "plant/#") == []
    for topic in ("plant/valve", elsewhere):
        await publisher.publish(topic, b"", 1, retain=True)
    await publisher.disconnect()


async def test_nothing_was_dropped(matrix: Matrix) -> None:
    for domain in ("west", "east"):
        status = await matrix.running.gateway(domain)
        assert status.dropped == {}
        assert status.malformed_bodies == 0
        assert [link.reconnects for link in status.links] == [0]


@pytest.mark.parametrize(
    ("introduced", "packet"),
    [
        (False, b"\x00" * 64),
        (False, b"\xff" * 64),
        (False, b"\x10\xff\xff\xff\xff\x7f"),  # CONNECT with an endless length
        (False, b"\x30\x05\x00\x03a/b"),  # PUBLISH before CONNECT
        (True, b"\x30\x07\x00\x05a/#/b"),  # a wildcard in a topic to publish on
        (True, b"\x36\x05\x00\x01a\x00\x01"),  # QoS 3
        (True, b"\x32\x05\x00\x01a\x00\x00"),  # packet number 0
        (True, b"\x82\x06\x00\x01\x00\x01a\x07"),  # SUBSCRIBE with QoS 7
        (True, b"\x30\x05\x00\x03a\x00b"),  # a zero in a topic
        (True, b"\x10\x0e\x00\x04MQTT\x04\x02\x00\x3c\x00\x02v4"),  # CONNECT again
    ],
    ids=lambda value: value[-12:].hex() if isinstance(value, bytes) else "",
)
async def test_malformed_packets_cost_their_sender_the_connection(
    matrix: Matrix, introduced: bool, packet: bytes
) -> None:
    for place in ("west", "west/0"):
        port = matrix.broker(place).mqtt_port
        assert port is not None
        reader, writer = await mqtt_socket(port)
        writer.write((mqtt_connect(port, "v4") if introduced else b"") + packet)
        await heard_out(reader, writer)
        writer.close()


async def test_mqtt_5_is_refused(matrix: Matrix) -> None:
    port = matrix.broker("west").mqtt_port
    assert port is not None
    reader, writer = await mqtt_socket(port)
    writer.write(b"\x10\x0f\x00\x04MQTT\x05\x02\x00\x3c\x00\x00\x02v5")
    assert (await asyncio.wait_for(reader.readexactly(4), 10))[3] == 1, "unacceptable protocol version"
    writer.close()


async def test_a_retained_message_above_the_limit_is_refused(matrix: Matrix) -> None:
    topic = matrix.topic()
    publisher = await matrix.connected("west/0")
    await publisher.publish(topic, b"x" * 65536, 0, retain=True)
    assert await matrix.retained("west", topic) == []
    assert await matrix.retained("east", topic) == []
    with pytest.raises((TimeoutError, MqttError)):
        await asyncio.wait_for(publisher.publish(topic, b"y", 1), 1)
    await publisher.disconnect()


async def test_subjects_at_the_limit_of_their_length(matrix: Matrix) -> None:
    name = matrix.topic()
    longest = name + "/" + "x" * (MAX_SUBJECT_BYTES - len(name) - 1)
    publisher, subscriber = await matrix.connected("west/0"), await matrix.connected("east/0")
    assert await subscriber.subscribe(longest, 2) == 2
    await matrix.interest("west/0", longest.replace("/", "."))
    await publisher.publish(longest, b"1", 2)
    await publisher.publish(longest + "x", b"2", 2, retain=True)
    await all_came(lambda: [each.payload for each in subscriber.arrived] == [b"1"], "the message should come")

    async def counted() -> bool:
        return (await matrix.running.gateway("west")).dropped.get(ODD_SUBJECT, 0) == 1

    await eventually(counted, "what is too long for other domains should be counted")
    await publisher.publish(longest + "x", b"", 1, retain=True)
    for client in (publisher, subscriber):
        await client.disconnect()


@pytest.mark.parametrize("second", ["west", "west/0", "west/1"])
async def test_a_session_name_taken_twice_belongs_to_who_came_last(matrix: Matrix, second: str) -> None:
    topic, name = matrix.topic(), matrix.topic()
    before = await matrix.connected("west/0", "js", name)
    await before.subscribe(topic, 1)
    after = await matrix.connected(second, "js", name)
    await after.subscribe(topic, 1)
    publisher = await matrix.connected("east/0")
    await matrix.interest("east/0", topic)
    await publisher.publish(topic, b"1", 1)
    # What was handed to the older connection in the instant of its end comes again after the broker's 30 s.
    await all_came(
        lambda: [each.payload for each in after.arrived] == [b"1"], "who came last should get it", 45.0
    )
    assert before.arrived == []
    for client in (publisher, after):
        await client.disconnect()


async def test_headers_that_only_look_like_those_of_mqtt_do_no_harm(matrix: Matrix) -> None:
    topic = matrix.topic()
    subscriber = await matrix.connected("east/0")
    await subscriber.subscribe(topic, 0)
    await matrix.interest("west", topic)
    publisher = await nats.connect(matrix.broker("west").client_url)
    values = ("1", "2", "9", "", "1" * 40, "x: y", "12345")
    for number, value in enumerate(values):
        await publisher.publish(topic, b"%d" % number, headers={"Nmqtt-Pub": value})
    expected = [b"%d" % number for number in range(len(values))]
    await all_came(lambda: [each.payload for each in subscriber.arrived] == expected, "all should come once")
    await publisher.close()
    await subscriber.disconnect()


@pytest.mark.parametrize(
    "header",
    [
        b"NATS/1.0\r\nNmqtt-Pub:1",  # no end
        b"NATS/9.9\r\nNmqtt-Pub:1\r\n\r\n",
        b"Nmqtt-Pub:1\r\nNATS/1.0\r\n\r\n",
        b"NATS/1.0\r\n:1\r\n\r\n",
        b"NATS/1.0\r\nNmqtt-Pub\r\n\r\n",
        b"\x00" * 25,
        b"\xff" * 25,
        b"LMSG a 5\r\nhello\r\nLMSG a 1",
    ],
    ids=lambda header: header[:24].hex(),
)
async def test_malformed_headers_of_a_nats_client_go_through_as_they_are(
    matrix: Matrix, header: bytes
) -> None:
    topic = matrix.topic()
    subscriber = await matrix.connected("east/0")
    await subscriber.subscribe(topic, 0)
    await matrix.interest("west", topic)
    reader, writer = await nats_socket(matrix.broker("west").client_port, headers=True)
    writer.write(b"HPUB %b %d %d\r\n%bone\r\n" % (topic.encode(), len(header), len(header) + 3, header))
    writer.write(b"PUB %b 3\r\ntwo\r\nPING\r\n" % topic.encode())
    await asyncio.wait_for(reader.readuntil(b"PONG\r\n"), 10)
    await all_came(
        lambda: [each.payload for each in subscriber.arrived] == [b"one", b"two"], "both should come once"
    )
    writer.close()
    await subscriber.disconnect()


@pytest.mark.parametrize("line", [b"SUB %b two words 1\r\n", b"SUB %b two\twords 1\r\n"])
async def test_a_queue_group_with_spaces_costs_its_member_the_connection(matrix: Matrix, line: bytes) -> None:
    topic = matrix.topic().encode()
    for place in ("east", "east/0"):
        reader, writer = await nats_socket(matrix.broker(place).client_port)
        writer.write(line % topic + b"PING\r\n")
        said = await asyncio.wait_for(reader.read(), 10)
        assert b"PONG" not in said, "the broker closes the connection"
        writer.close()


async def test_no_link_was_closed_by_any_of_this(matrix: Matrix) -> None:
    for domain in ("west", "east"):
        status = await matrix.running.gateway(domain)
        assert set(status.dropped) <= {ODD_SUBJECT}
        assert status.malformed_bodies == 0
        assert [(link.up, link.reconnects) for link in status.links] == [(True, 0)]
    assert all(process.restarts == 0 for process in matrix.running.launched.processes())


async def test_a_gateway_that_was_away_catches_up(matrix: Matrix) -> None:
    kept, deleted, new = (matrix.topic() for _ in range(3))
    publisher = await matrix.connected("west")
    for topic in (kept, deleted):
        await publisher.publish(topic, b"old", 1, retain=True)
        await matrix.retains("east", topic, [Arrival(topic, b"old", 1, True)])
    gateway = matrix.running.launched.sites["east"].gateway
    await gateway.kill()
    await publisher.publish(deleted, b"", 1, retain=True)
    await publisher.publish(new, b"new", 1, retain=True)
    await gateway.start()
    await matrix.running.links_up()
    await matrix.retains("east/0", new, [Arrival(new, b"new", 1, True)])
    await matrix.retains("east/0", deleted, [])
    await matrix.retains("east/0", kept, [Arrival(kept, b"old", 1, True)])
    await publisher.disconnect()
