"""Mirrors move, and a line between brokers swallows everything while both its ends answer their clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.kit.domain_of_brokers import (
    DOMAIN,
    DomainOfBrokers,
    Load,
    OrderingAgent,
    domain_of_brokers,
    heard,
    ordering_agent,
    received,
)
from tests.kit.waiting import eventually

import mangrove
from mangrove.client import Connection, Message
from mangrove.model.agents.directory import DirectoryRecord
from mangrove.model.topics import Mirror


class Line:
    """Carries bytes to a port, until it swallows them."""

    def __init__(self) -> None:
        self.broken = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None

    async def open(self, to: int) -> int:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._writers.append(writer)
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", to)
            self._writers.append(far_writer)
            for source, sink in ((reader, far_writer), (far_reader, writer)):
                self._tasks.add(asyncio.create_task(self._carry(source, sink)))

        self._server = await asyncio.start_server(accept, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(1 << 16):
                if not self.broken:
                    sink.write(data)
        except ConnectionError:
            pass
        finally:
            sink.close()

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()


@pytest.fixture(autouse=True)
def patient_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent answers in all of these tests: it is waited for though the machine may be busy."""
    monkeypatch.setattr("mangrove.client.management.managed.LINK_S", 10.0)
    monkeypatch.setattr("mangrove.client.management.managed.CONNECT_S", 10.0)
    monkeypatch.setattr("mangrove.client.management.membership.PLACE_S", 10.0)


@pytest.fixture(scope="module")
async def line() -> AsyncIterator[Line]:
    line = Line()
    yield line
    await line.close()


@pytest.fixture(scope="module")
async def domain(tmp_path_factory: pytest.TempPathFactory, line: Line) -> AsyncIterator[DomainOfBrokers]:
    async def lines(leaf: int) -> dict[str, int]:
        return {"edge1": await line.open(leaf)}

    async with domain_of_brokers(tmp_path_factory.mktemp("line"), lines) as running:
        yield running


@pytest.fixture
async def agent(domain: DomainOfBrokers) -> AsyncIterator[OrderingAgent]:
    async with ordering_agent(domain) as running:
        yield running


async def at_mirror(broker: str, topic: str, *connections: Connection) -> None:
    async def there() -> bool:
        states = [connection.mirrors.get(topic) for connection in connections]
        return all(each is not None and each.mirrors == (broker,) and not each.away for each in states)

    await eventually(there, f"all should be at {broker}")
    for connection in connections:
        await connection.mirrored()


async def test_a_mirror_moves_under_a_stream(domain: DomainOfBrokers, agent: OrderingAgent) -> None:
    async with (
        mangrove.connect(domain.url("head")) as publisher,
        mangrove.connect(domain.url("head")) as subscriber,
    ):
        got: list[bytes] = []

        async def take(message: Message) -> None:
            got.append(message.data)

        subscription = await subscriber.subscribe("alert.a", callback=take)
        await heard(publisher, "alert.a", got)
        load = Load()
        task = asyncio.create_task(load.publish("p", lambda data: publisher.publish("alert.a", data), 500))
        for epoch, mirror in enumerate(("edge2", "head", "edge2"), start=1):
            mode = Mirror.BOTH
            record = DirectoryRecord(
                topic="alert.a", domain=DOMAIN, epoch=epoch, edges=("edge1",), mirror=mirror, mode=mode
            )
            await agent.push(record)
            await at_mirror(mirror, "alert.a", publisher, subscriber)
            before = subscription.mirrored.messages

            async def comes_twice(before: int = before) -> bool:
                return subscription.mirrored.messages > before + 50

            await eventually(comes_twice, f"{mirror} should bring second copies")
        withdrawn = DirectoryRecord(topic="alert.a", domain=DOMAIN, epoch=9, edges=("edge1",))
        await agent.push(withdrawn)

        async def alone() -> bool:
            return "alert.a" not in publisher.mirrors

        await eventually(alone, "nothing should be mirrored any more")
        load.running = False
        await task
        await received(got, load)
        assert load.problems(got) == []


async def test_an_edge_that_is_cut_off_from_its_head(
    domain: DomainOfBrokers, agent: OrderingAgent, line: Line
) -> None:
    async with (
        mangrove.connect(domain.url("head")) as publisher,
        mangrove.connect(domain.url("head")) as subscriber,
    ):
        got: list[bytes] = []

        async def take(message: Message) -> None:
            got.append(message.data)

        subscription = await subscriber.subscribe("meter.a", callback=take)
        await heard(publisher, "meter.a", got)
        record = DirectoryRecord(
            topic="meter.a", domain=DOMAIN, epoch=1, edges=("edge1",), mirror="edge2", mode=Mirror.STANDBY
        )
        await agent.push(record)

        await at_mirror("edge2", "meter.a", publisher, subscriber)
        load = Load()
        task = asyncio.create_task(load.publish("p", lambda data: publisher.publish("meter.a", data), 500))

        async def primary_alone() -> bool:
            mirrored, came = subscription.mirrored.messages, len(got)
            await asyncio.sleep(0.5)
            return subscription.mirrored.messages == mirrored and len(got) > came

        # A machine that halts for some tenths of a second makes a client doubt its primary for a while.
        await eventually(primary_alone, "the primary alone should bring messages", 40)
        leases, behind = publisher.mirroring["leases"], subscriber.mirroring["primary behind"]
        assert subscription.mirrored.messages == 0 or leases > 0
        line.broken = True
        broken_at = len(got)

        async def goes_on() -> bool:
            return len(got) > broken_at + 1000

        await eventually(goes_on, "messages should come by the mirror")
        load.running = False
        await task
        await received(got, load)
        assert load.problems(got) == []
        assert subscriber.mirroring["primary behind"] > behind
        assert publisher.mirroring["leases"] == leases + 1
