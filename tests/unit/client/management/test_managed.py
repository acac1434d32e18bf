"""What the directory's word does to a connection, without brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

import pytest
from tests.kit.waiting import eventually

from mangrove.broker.client_connection import BrokerAwayError, ClientConnection, ClientConnectionOwner
from mangrove.client.broker_pool import BrokerPool
from mangrove.client.filtering.publish_filter import PublishFilter
from mangrove.client.legs import Legs
from mangrove.client.management import managed as module
from mangrove.client.management import publisher_moves
from mangrove.client.management.identity import Identity
from mangrove.client.management.link import ManagementLink
from mangrove.client.management.managed import Managed
from mangrove.client.message import MessageIds, Respond
from mangrove.client.migration.publisher_move import Route
from mangrove.model.agents.directions import BrokerDirection, Directions
from mangrove.model.agents.directory import DirectoryRecord
from mangrove.model.agents.registration import Assignment, Order

HEAD, EDGE, OTHER = (BrokerDirection(name=each, url=f"nats://{each}:4222") for each in ("head", "e1", "e2"))


class Link:
    """A management broker that never comes."""

    domain, user, connected, login = "here", "", False, None

    def listen(self, subject: str, heard: Callable[[bytes], None]) -> None:
        """Nothing is said."""


class Wire:
    """A connection to a broker."""

    def __init__(self, url: str) -> None:
        self.url = url


class Pool:
    """Brokers that are there or away."""

    listener: object = None

    def __init__(self) -> None:
        self.wires = {each.url: Wire(each.url) for each in (HEAD, EDGE, OTHER)}
        self.away: set[str] = set()
        self.asked: list[str] = []

    async def at(self, url: str) -> ClientConnection:
        self.asked.append(url)
        if url in self.away:
            raise BrokerAwayError(f"{url} does not answer")
        return cast("ClientConnection", self.wires[url])

    async def apart(self, url: str, owner: ClientConnectionOwner) -> ClientConnection:
        raise BrokerAwayError("nothing is mirrored")

    def tidy(self, used: Callable[[ClientConnection], bool]) -> bool:
        return False


class Client:
    """A connection that publishes on `plant.pump`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def move(subject: str, old: ClientConnection, new: ClientConnection, route: Route) -> str:
            return ""

        monkeypatch.setattr(publisher_moves, "move_within_domain", move)
        monkeypatch.setattr(module, "FOLLOW_AGAIN_S", 0.01)
        self.pool = Pool()
        head = cast("ClientConnection", self.pool.wires[HEAD.url])
        self.managed = Managed(
            Directions(federation="f", domain="here", head=HEAD, edges=(EDGE, OTHER)),
            cast("ManagementLink", Link()),
            Identity(),
            "n",
            cast("BrokerPool", self.pool),
            head,
            head,
        )
        respond = cast("Respond", None)
        ids = MessageIds()
        self.managed.begin(Legs(respond), dict, lambda subject, wire: None, PublishFilter(), ids, respond)
        self.managed.published("plant.pump")
        self.epoch = 0

    def say(self, publish_at: str) -> None:
        """The directory says so."""
        self.epoch += 1
        record = DirectoryRecord(
            topic="plant.pump", domain="here", epoch=self.epoch, edges=("e2",), publish_at=publish_at
        )
        self.managed.directory_changed(self.managed.membership.directory.take([record]))

    async def settled(self) -> None:
        """Whatever was to be tried again has been."""
        await asyncio.sleep(10 * module.FOLLOW_AGAIN_S)

    def at(self, broker: str) -> Callable[[], Awaitable[bool]]:
        """Whether it is published there."""

        async def arrived() -> bool:
            return self.managed.broker_of("p1") == broker

        return arrived


async def test_what_cannot_be_published_at_its_place_is_tried_there_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = Client(monkeypatch)
    client.pool.away = {EDGE.url}
    client.say("e1")

    async def tried_again() -> bool:
        return client.pool.asked.count(EDGE.url) > 2

    await eventually(tried_again, "it is tried again and again")
    assert client.managed.broker_of("p1") == "head"
    client.pool.away.clear()
    await eventually(client.at("e1"), "it is published where the directory says")
    await client.managed.close()


async def test_it_is_tried_where_the_directory_says_by_then(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(monkeypatch)
    client.pool.away = {EDGE.url}
    client.say("e1")
    client.say("e2")
    await eventually(client.at("e2"), "it is published at the later place")
    client.pool.asked.clear()
    await client.settled()
    assert client.pool.asked == []
    await client.managed.close()


@pytest.mark.parametrize("failed", [False, True])
async def test_what_was_ordered_since_is_not_undone(monkeypatch: pytest.MonkeyPatch, failed: bool) -> None:
    client = Client(monkeypatch)
    client.pool.away = {EDGE.url}
    client.say("e1")
    if failed:
        await asyncio.sleep(0)
        assert client.managed.moved == {"publisher stayed": 1}
    order = Order(term=1, session="s", key="p1", to=Assignment(broker="e2", url=OTHER.url, epoch=9))
    client.managed.ordered(order)
    await eventually(client.at("e2"), "it is published where it was ordered")
    client.pool.away.clear()
    client.pool.asked.clear()
    await client.settled()
    assert client.pool.asked == []
    await client.managed.close()
