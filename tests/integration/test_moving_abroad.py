"""Subscriptions and publishers that move to brokers of another domain, and back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import nats
import pytest
from tests.kit.domain_of_brokers import Load
from tests.kit.running import Running
from tests.kit.waiting import eventually

import mangrove
from mangrove.client import Connection, Message
from mangrove.config import parse_federation
from mangrove.model.agents.registration import Assignment, Order
from mangrove.testbed.local_federation import LocalFederation

PAIR = """
federation: pair
domains:
  seattle: {location: [47.61, -122.33], edges: 1, accept_load_from: [denver]}
  denver:  {location: [39.74, -104.99], edges: 1, accept_load_from: [seattle]}
links:
  - {between: [seattle, denver], delay_ms: 5}
balancing: {enabled: false}
"""
PAUSE_S = 0.2


@pytest.fixture(scope="module")
async def pair(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    directory: Path = tmp_path_factory.mktemp("state") / "pair"
    federation = parse_federation(PAIR, "pair").require()
    async with LocalFederation(federation, directory, ephemeral=True) as launched:
        running = Running(launched)
        await running.links_up()
        yield running


async def carry_out(
    pair: Running, connection: Connection, key: str, domain: str, *, head: bool = False
) -> None:
    """As if the agent of seattle had said so."""
    endpoints = pair.launched.endpoints[domain]
    broker = endpoints.head if head else endpoints.edges[0]
    managed = connection._managed
    assert managed is not None
    before = sum(managed.moved.values())
    away = domain != "seattle"
    managed.ordered(
        Order(
            term=1,
            session=f"{key}-{before}",
            key=key,
            to=Assignment(broker=broker.name, url=broker.client_url, epoch=1),
            domain=domain,
            management_url=endpoints.management.client_url if away else "",
            pause_s=PAUSE_S,
        )
    )

    async def done() -> bool:
        return sum(managed.moved.values()) > before

    await eventually(done, "the order should be carried out")
    assert not managed.moved["stayed"]
    assert not managed.moved["publisher stayed"]


async def test_a_subscription_goes_abroad_and_comes_back(pair: Running) -> None:
    got: list[bytes] = []

    async def take(message: Message) -> None:
        got.append(message.data)

    async with (
        mangrove.connect(pair.head("seattle")) as subscriber,
        mangrove.connect(pair.head("denver")) as denver,
        mangrove.connect(pair.head("seattle")) as seattle,
    ):
        subscription = await subscriber.subscribe("abroad.*", callback=take)
        await subscription.ready()
        plain = {name: await nats.connect(pair.head(name)) for name in ("seattle", "denver")}
        load = Load()
        publishers: dict[str, Callable[[bytes], object]] = {
            "sdk-seattle": partial(seattle.publish, "abroad.a"),
            "sdk-denver": partial(denver.publish, "abroad.b"),
            "seattle": partial(plain["seattle"].publish, "abroad.c"),
            "denver": partial(plain["denver"].publish, "abroad.d"),
        }
        tasks = [
            asyncio.create_task(load.publish(name, publish, 300)) for name, publish in publishers.items()
        ]
        for domain in ("denver", "seattle", "denver"):
            await asyncio.sleep(0.2)
            await carry_out(pair, subscriber, "s1", domain)
            leg = subscriber._legs.of(subscription)
            assert leg is not None
            assert leg.wire.url == pair.edge(domain)
            await subscription.ready()
        load.running = False
        await asyncio.gather(*tasks)
        await seattle.flush()
        await denver.flush()
        for each in plain.values():
            await each.flush()
        wanted = sum(load.sent.values())

        async def all_there() -> bool:
            return len(got) >= wanted

        await eventually(all_there, "everything should come")
        for each in plain.values():
            await each.close()
    assert load.problems(got) == []


async def test_any_broker_of_a_domain_tells_of_all(pair: Running) -> None:
    async with mangrove.connect(pair.edge("denver")) as connection:
        assert connection._publisher.url == pair.head("denver")
        subscription = await connection.subscribe("told")
        await subscription.ready()
        leg = connection._legs.of(subscription)
        assert leg is not None
        assert leg.wire.url == pair.edge("denver")


async def test_a_publisher_goes_to_another_head_and_back(pair: Running) -> None:
    got: dict[str, list[bytes]] = {"seattle": [], "denver": []}

    async def take(where: str, message: Message) -> None:
        got[where].append(message.data)

    async with (
        mangrove.connect(pair.head("seattle")) as publisher,
        mangrove.connect(pair.head("seattle")) as seattle,
        mangrove.connect(pair.head("denver")) as denver,
    ):
        for where, connection in (("seattle", seattle), ("denver", denver)):
            await (await connection.subscribe("press", callback=partial(take, where))).ready()
        load = Load()
        task = asyncio.create_task(load.publish("sdk", partial(publisher.publish, "press"), 1000))
        await asyncio.sleep(0.2)
        await carry_out(pair, publisher, "p1", "denver", head=True)
        await asyncio.sleep(0.2)
        await carry_out(pair, publisher, "p1", "seattle", head=True)
        await asyncio.sleep(0.2)
        load.running = False
        await task
        await publisher.flush()

        async def all_there() -> bool:
            return all(len(each) >= load.sent["sdk"] for each in got.values())

        await eventually(all_there, "everything should come to both")
    for each in got.values():
        assert load.problems(each) == []
