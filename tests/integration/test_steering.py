"""New subscribers are led to a linked domain that publishes what they ask for, with real brokers and keys."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
from tests.kit.domain_of_brokers import Load
from tests.kit.running import Running
from tests.kit.waiting import eventually

import mangrove
from mangrove.agent.management import ManagementConnection
from mangrove.agent.story import read_events
from mangrove.client import Connection
from mangrove.client.connecting import Connecting
from mangrove.client.subscription import Subscription
from mangrove.config import parse_federation
from mangrove.control.events.steering_happenings import SteeringDecided, SubscribersSteered
from mangrove.model.agents.directory import DirectoryQuestion, ServedTopic
from mangrove.testbed.local_federation import LocalFederation

THREE = """
federation: three
domains:
  here:   {edges: 1, steer: true}
  there:  {edges: 1, accept_load_from: [here]}
  closed: {edges: 1}
links:
  - {between: [here, there], delay_ms: 100}
  - {between: [here, closed], delay_ms: 100}
topics:
  - {match: "inner.>", confidential: true}
"""
LONG_S = 60.0


class Steered(Running):
    """Two sites that speak with a third, which leads its subscribers to one of them."""

    def connect(self, domain: str) -> Connecting:
        return mangrove.connect(run_dir=self.launched.directory, domain=domain)

    async def directory(self, topic: str) -> ServedTopic | None:
        """What the agent of `here` says of a topic."""
        async with ManagementConnection(self.launched.endpoints["here"]) as management:
            answer = await management.directory(DirectoryQuestion(topic=topic))
        return next((each for each in answer.topics if each.topic == topic), None) if answer else None

    async def advertised(self, topic: str, domain: str) -> None:
        async def known() -> bool:
            found = await self.directory(topic)
            return found is not None and domain in [each.source for each in found.published_by]

        await eventually(known, f"here knows that {domain} publishes {topic}", timeout_s=LONG_S)


@pytest.fixture(scope="module")
async def three(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Steered]:
    directory: Path = tmp_path_factory.mktemp("state") / "three"
    federation = parse_federation(THREE, "three").require()
    async with LocalFederation(federation, directory, ephemeral=True, secured=True) as launched:
        running = Steered(launched)
        await running.links_up()
        yield running


def served_at(connection: Connection, subscription: Subscription) -> str:
    leg = connection._legs.of(subscription)
    return "" if leg is None or not leg.wire.connected else leg.wire.url


async def comes_to(connection: Connection, subscription: Subscription, url: str) -> None:
    async def there() -> bool:
        return served_at(connection, subscription) == url

    await eventually(there, f"{subscription.subject} should be served at {url}", timeout_s=LONG_S)


async def test_a_subscriber_goes_to_its_publishers_and_comes_home_when_they_fail(three: Steered) -> None:
    got: list[bytes] = []

    async def take(message: mangrove.Message) -> None:
        got.append(message.data)

    async with three.connect("there") as publisher, three.connect("here") as reader:
        await publisher.publish("news.a", b"first 1")
        await three.advertised("news.a", "there")
        subscription = await reader.subscribe("news.*", callback=take)
        await subscription.ready()
        assert served_at(reader, subscription) == three.edge("here")
        load = Load()
        task = asyncio.create_task(load.publish("sdk", partial(publisher.publish, "news.a"), 200))
        await comes_to(reader, subscription, three.edge("there"))
        await subscription.ready()

        async def told() -> bool:
            found = await three.directory("news.*")
            return found is not None and found.elsewhere == {"there-edge1": 1}

        await eventually(told, "the directory says where it is served", timeout_s=LONG_S)
        found = await three.directory("news.*")
        assert found is not None
        assert found.steering.startswith("led to there: its messages cross 0 links to there and 1 to here")
        load.running = False
        await task
        await publisher.flush()

        async def all_there() -> bool:
            return len(got) >= load.sent["sdk"]

        await eventually(all_there, "everything should come", timeout_s=LONG_S)
        assert load.problems(got) == []
        happenings = [event.happening for event in read_events(three.launched.run.events)]
        (decided,) = (each for each in happenings if isinstance(each, SteeringDecided))
        assert (decided.topic, decided.domain, decided.sources) == ("news.*", "there", {"there": 1})
        (steered,) = (each for each in happenings if isinstance(each, SubscribersSteered))
        assert (steered.moved, steered.stayed, steered.broker) == (1, {}, "there-edge1")

        (edge,) = (each for each in three.launched.sites["there"].processes() if each.name == "there-edge1")
        await edge.stop()
        await comes_to(reader, subscription, three.edge("here"))
        await subscription.ready()
        got.clear()
        after = Load()
        task = asyncio.create_task(after.publish("sdk", partial(publisher.publish, "news.a"), 200))
        await asyncio.sleep(0.5)
        await edge.start()
        await asyncio.sleep(0.5)
        after.running = False
        await task
        await publisher.flush()

        async def rest_there() -> bool:
            return len(got) >= after.sent["sdk"]

        await eventually(rest_there, "at home everything comes", timeout_s=LONG_S)
        assert after.problems(got) == []
        assert served_at(reader, subscription) == three.edge("here"), "nobody is led away a second time"


async def test_a_subscriber_stays_where_the_rules_want_it(three: Steered) -> None:
    """Nobody goes to a domain that takes no clients from here, nor with a confidential topic, nor in a
    group."""
    async with (
        three.connect("closed") as closed,
        three.connect("there") as there,
        three.connect("here") as reader,
    ):
        await closed.publish("shut.a", b"")
        await there.publish("inner.a", b"")
        await there.publish("shared.a", b"")
        await three.advertised("shut.a", "closed")
        await three.advertised("shared.a", "there")
        subscriptions = [
            await reader.subscribe("shut.a"),
            await reader.subscribe("inner.a"),
            await reader.subscribe("shared.a", queue="crew"),
        ]

        async def looked_at() -> bool:
            found = await three.directory("shut.a")
            return found is not None and found.steering.startswith("at home: no linked domain")

        await eventually(looked_at, "the agent has looked at the newcomers", timeout_s=LONG_S)
        assert {served_at(reader, each) for each in subscriptions} == {three.edge("here")}
        for topic in ("inner.a", "shared.a"):
            found = await three.directory(topic)
            assert found is None or not found.steering
