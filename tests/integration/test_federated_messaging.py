"""Messages between clients of different domains, over real brokers and gateways."""

from __future__ import annotations

import asyncio
import queue
import time
from collections import Counter
from collections.abc import AsyncIterator

import nats
import nats.errors
import paho.mqtt.client as mqtt
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from paho.mqtt.enums import CallbackAPIVersion
from tests.kit.running import Running
from tests.kit.waiting import eventually

import mangrove
from mangrove.client import MessageTooLargeError, NotConnectedError
from mangrove.errors import InputError, MangroveError


@pytest.fixture(autouse=True)
async def at_rest(chain: Running) -> None:
    """Each test begins without the subscriptions of the one before."""
    await chain.at_rest()


@pytest.fixture
async def seattle(chain: Running) -> AsyncIterator[Client]:
    client = await nats.connect(chain.head("seattle"))
    yield client
    await client.close()


@pytest.fixture
async def orlando(chain: Running) -> AsyncIterator[Client]:
    client = await nats.connect(chain.edge("orlando"))
    yield client
    await client.close()


async def no_message(subscription: object, timeout: float = 0.4) -> None:
    with pytest.raises(nats.errors.TimeoutError):
        await subscription.next_msg(timeout=timeout)  # type: ignore[attr-defined]


async def test_plain_clients_reach_each_other(chain: Running, seattle: Client, orlando: Client) -> None:
    subscription = await orlando.subscribe("alert.tsunami")
    await chain.knows_interest("seattle", "orlando", 1)
    await seattle.publish("alert.tsunami", b"wave", headers={"Severity": "high", "Trace": "a:b"})
    message = await subscription.next_msg(timeout=5)
    assert message.data == b"wave"
    assert message.headers == {"Severity": "high", "Trace": "a:b"}
    await no_message(subscription)


async def test_wildcards_and_overlapping_subscriptions(
    chain: Running, seattle: Client, orlando: Client
) -> None:
    wide = await orlando.subscribe("sensor.>")
    narrow = await orlando.subscribe("sensor.*.level")
    everything = await orlando.subscribe(">")
    await chain.knows_interest("seattle", "orlando", 3)
    await seattle.publish("sensor.7.level", b"1")
    await seattle.publish("sensor.7.temperature.water", b"2")
    await seattle.publish("unrelated", b"3")
    assert [(await wide.next_msg(timeout=5)).data for _ in range(2)] == [b"1", b"2"]
    assert (await narrow.next_msg(timeout=5)).data == b"1"
    assert [(await everything.next_msg(timeout=5)).data for _ in range(3)] == [b"1", b"2", b"3"]
    for subscription in (wide, narrow, everything):
        await no_message(subscription, 0.2)


async def test_many_messages_arrive_once_and_in_order(
    chain: Running, seattle: Client, orlando: Client
) -> None:
    received: list[bytes] = []
    done = asyncio.Event()

    async def take(message: Msg) -> None:
        received.append(message.data)
        if len(received) == 5000:
            done.set()

    await orlando.subscribe("bulk.data", cb=take)
    await chain.knows_interest("seattle", "orlando", 1)
    sent = [f"{number} ".encode() * (1 + number % 50) for number in range(5000)]
    for payload in sent:
        await seattle.publish("bulk.data", payload)
    async with asyncio.timeout(20):
        await done.wait()
    await asyncio.sleep(0.2)  # a second copy would come now
    assert received == sent


async def test_large_messages(chain: Running, seattle: Client, orlando: Client) -> None:
    subscription = await orlando.subscribe("large")
    await chain.knows_interest("seattle", "orlando", 1)
    payload = bytes(range(256)) * 256  # 64 KiB, the limit of this federation, full of protocol-like bytes
    for _ in range(20):
        await seattle.publish("large", payload)
    for _ in range(20):
        assert (await subscription.next_msg(timeout=5)).data == payload


async def test_request_and_reply(chain: Running, seattle: Client, orlando: Client) -> None:
    async def serve(message: Msg) -> None:
        await message.respond(b"answer to " + message.data)

    await orlando.subscribe("service.time", cb=serve)
    await chain.knows_interest("seattle", "orlando", 1)
    for number in range(20):
        answer = await seattle.request("service.time", b"%d" % number, timeout=5)
        assert answer.data == b"answer to %d" % number


async def test_a_request_without_service_is_told_so(chain: Running, seattle: Client) -> None:
    await chain.knows_interest("seattle", "orlando", 0)
    with pytest.raises(nats.errors.NoRespondersError):
        await seattle.request("service.nowhere", b"?", timeout=5)


async def test_a_forwarded_request_still_finds_its_way_back(
    chain: Running, seattle: Client, orlando: Client
) -> None:
    """Orlando hands a request from Seattle on to Denver, which answers Seattle directly."""
    denver = await nats.connect(chain.head("denver"))

    async def hand_on(message: Msg) -> None:
        await orlando.publish("back.office", message.data, reply=message.reply)

    async def answer(message: Msg) -> None:
        await message.respond(b"from denver: " + message.data)

    await orlando.subscribe("front.desk", cb=hand_on)
    await denver.subscribe("back.office", cb=answer)
    await chain.knows_interest("seattle", "orlando", 1)
    await chain.knows_interest("orlando", "denver", 1)
    assert (await seattle.request("front.desk", b"hello", timeout=5)).data == b"from denver: hello"
    await denver.close()


async def test_queue_groups_get_one_copy_for_each_group(chain: Running, seattle: Client) -> None:
    clients = [await nats.connect(url) for url in (chain.edge("orlando", 0), chain.edge("orlando", 1))]
    clients += [await nats.connect(url) for url in (chain.head("denver"), chain.edge("denver"))]
    taken: Counter[str] = Counter()

    def count(name: str) -> object:
        async def take(_: Msg) -> None:
            taken[name] += 1

        return take

    for client, domain in zip(clients, ("orlando", "orlando", "denver", "denver"), strict=True):
        await client.subscribe("job.*", "workers", cb=count(f"{domain} workers"))  # type: ignore[arg-type]
        await client.subscribe("job.>", "audit", cb=count(f"{domain} audit"))  # type: ignore[arg-type]
    await clients[0].subscribe("job.1", cb=count("orlando plain"))  # type: ignore[arg-type]
    await chain.knows_interest("seattle", "orlando", 3)
    await chain.knows_interest("seattle", "denver", 2)
    for _ in range(50):
        await seattle.publish("job.1", b"", headers={"A": "b"})
    for _ in range(50):
        await seattle.publish("job.2", b"x")

    async def all_taken() -> bool:
        return taken.total() >= 250

    await eventually(all_taken, "all copies should arrive")
    await asyncio.sleep(0.3)  # a copy too many would come now
    assert taken == {
        "denver workers": 100,
        "denver audit": 100,
        "orlando plain": 50,
    }
    for client in clients:
        await client.close()


async def test_interest_is_withdrawn_with_the_last_subscriber(chain: Running, seattle: Client) -> None:
    first = await nats.connect(chain.edge("orlando", 0))
    second = await nats.connect(chain.edge("orlando", 1))
    await first.subscribe("fleeting")
    await second.subscribe("fleeting")
    await chain.knows_interest("seattle", "orlando", 1)
    await first.close()
    await asyncio.sleep(0.3)  # a withdrawal too early would come now
    await chain.knows_interest("seattle", "orlando", 1)
    before = (await chain.gateway("seattle")).sent
    await second.close()
    await chain.knows_interest("seattle", "orlando", 0)
    assert (await chain.gateway("seattle")).subscribed == 0
    await seattle.publish("fleeting", b"nobody listens")
    await seattle.flush()
    await asyncio.sleep(0.2)  # what must not be sent would be sent now
    assert (await chain.gateway("seattle")).sent == before


async def test_domain_topics_do_not_leak(chain: Running, seattle: Client, orlando: Client) -> None:
    explicit = await orlando.subscribe("plant.boiler")
    everything = await orlando.subscribe(">")
    neighbour = await nats.connect(chain.edge("seattle"))
    inside = await neighbour.subscribe("plant.>")
    await chain.knows_interest("seattle", "orlando", 1)  # only the wildcard is worth telling
    await seattle.publish("plant.boiler", b"secret")
    await seattle.publish("public", b"hello")
    assert (await inside.next_msg(timeout=5)).data == b"secret"
    assert (await everything.next_msg(timeout=5)).data == b"hello"
    await no_message(everything, 0.2)
    await no_message(explicit, 0.2)
    await neighbour.close()


async def test_mqtt_and_nats_clients_two_domains_apart(chain: Running, seattle: Client) -> None:
    edge = chain.launched.endpoints["orlando"].edges[0]
    arrived: queue.Queue[tuple[str, bytes | bytearray]] = queue.Queue()
    ready: queue.Queue[str] = queue.Queue()
    client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id="buoy-7", protocol=mqtt.MQTTv311)
    client.on_message = lambda _c, _u, message: arrived.put((message.topic, message.payload))
    client.on_subscribe = lambda *_: ready.put("subscribed")
    assert edge.mqtt_port is not None
    client.connect(edge.host, edge.mqtt_port)
    client.loop_start()
    try:
        client.subscribe("command/buoy/#", qos=1)
        await asyncio.to_thread(ready.get, timeout=10)
        levels = await seattle.subscribe("level.*")
        await chain.knows_interest("orlando", "seattle", 1)
        await chain.knows_interest("seattle", "orlando", 2)  # MQTT's # also covers its parent level
        client.publish("level/7", b"3.2 m", qos=0)
        client.publish("level/8", b"3.3 m", qos=1)
        assert [(await levels.next_msg(timeout=5)).data for _ in range(2)] == [b"3.2 m", b"3.3 m"]
        await seattle.publish("command.buoy.7.sample", b"now")
        assert await asyncio.to_thread(arrived.get, timeout=10) == ("command/buoy/7/sample", b"now")
        await no_message(levels, 0.2)
        assert arrived.empty()
    finally:
        client.disconnect()
        client.loop_stop()


async def test_sdk_publish_subscribe_request(chain: Running) -> None:
    run_dir = chain.launched.directory
    async with (
        mangrove.connect(run_dir=run_dir, domain="seattle") as west,
        mangrove.connect(run_dir=run_dir, domain="orlando") as east,
    ):
        seen: list[mangrove.Message] = []

        async def take(message: mangrove.Message) -> None:
            seen.append(message)
            if message.reply:
                await message.respond(b"pong", headers={"From": "orlando"})

        iterated = await east.subscribe("sdk.data")
        await east.subscribe("sdk.service", queue="servers", callback=take)
        await chain.knows_interest("seattle", "orlando", 2)
        await west.publish("sdk.data", b"1", headers={"K": "v"})
        await west.publish("sdk.data", b"2")
        messages = []
        async for message in iterated:
            messages.append(message)
            if len(messages) == 2:
                break
        assert [message.data for message in messages] == [b"1", b"2"]
        assert messages[0].headers["K"] == "v"
        assert len({message.id for message in messages}) == 2
        for message in messages:
            assert message.published_at is not None
            assert 0 < time.time() - message.published_at < 30
        answer = await west.request("sdk.service", b"ping", timeout=5)
        assert (answer.data, answer.headers["From"]) == (b"pong", "orlando")
        await iterated.unsubscribe()
        await iterated.unsubscribe()
        await chain.knows_interest("seattle", "orlando", 1)


async def test_sdk_errors_say_what_to_do(chain: Running) -> None:
    async with mangrove.connect(chain.head("seattle")) as connection:
        with pytest.raises(InputError, match="not a valid subject"):
            await connection.publish("bad subject", b"")
        with pytest.raises(InputError, match="wildcard"):
            await connection.publish("a.*", b"")
        with pytest.raises(InputError, match="cannot be sent"):
            await connection.publish("a", b"", headers={"A": "b\r\nc"})
        with pytest.raises(MessageTooLargeError) as caught:
            await connection.publish("a", b"x" * 65536)
        assert caught.value.limit_bytes == 65536
        assert connection.refused == {"a": 1}
        with pytest.raises(MangroveError, match="nobody in the federation answers"):
            await connection.request("nobody.home", b"")
        silent = await connection.subscribe("silence")
        with pytest.raises(TimeoutError):
            await silent.next(timeout=0.05)
    with pytest.raises(NotConnectedError, match="cannot connect"):
        await mangrove.connect("nats://127.0.0.1:1")
    with pytest.raises(InputError, match="has no domain"):
        await mangrove.connect(run_dir=chain.launched.directory, domain="atlantis")
