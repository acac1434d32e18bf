"""A gateway's attachment to the first broker of several: the next at once, and none that is silent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.kit.leaf_nodes import INFO
from tests.kit.waiting import eventually

from mangrove.broker.nats.leaf_attachment import LeafAttachment
from mangrove.gateway.line_table import LineTable
from mangrove.overlay.protocol.bodies import DISCARD, Entry


class Broker:
    """Greets leaf nodes, answers their pings until it is silenced, and can be killed and started again."""

    def __init__(self, name: bytes) -> None:
        self._name = name
        self._writers: list[asyncio.StreamWriter] = []
        self._port = 0
        self.silent = False
        self.callers = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def kill(self) -> None:
        self._server.close()
        for writer in self._writers:
            writer.close()
        self._writers.clear()

    @property
    def url(self) -> str:
        return f"nats-leaf://127.0.0.1:{self._port}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        self.callers += 1
        if self.silent:
            return
        writer.write(INFO.replace(b'"s"', b'"%b"' % self._name))
        while line := await reader.readline():
            if line == b"PING\r\n" and not self.silent:
                writer.write(b"PONG\r\n")


class Owner:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.sorter = LineTable(lambda line: Entry(2, DISCARD), lambda: None)
        self.told: list[str] = []

    def attached(self, broker: str = "", *, elsewhere: bool = False) -> None:
        self.told.append(f"attached to {broker}" + (" elsewhere" if elsewhere else ""))

    def lost(self, reason: str) -> None:
        if self.told and self.told[-1] != "lost":
            self.told.append("lost")

    def doubted(self, doubted: bool) -> None:
        self.told.append("doubted" if doubted else "trusted")

    def buffer_done(self) -> None: ...
    def interest(self, subject: str, group: str, wanted: bool) -> None: ...
    def ignored(self, what: str) -> None: ...
    def undelivered(self, reason: str, count: int, topic: str = "") -> None: ...
    def writable(self, writable: bool) -> None: ...


@asynccontextmanager
async def attachment(*brokers: Broker) -> AsyncIterator[Owner]:
    owner = Owner()
    made = LeafAttachment("gateway", tuple(broker.url for broker in brokers), owner)
    task = asyncio.create_task(made.run())
    try:
        yield owner
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        for broker in brokers:
            await broker.kill()


@asynccontextmanager
async def two_brokers() -> AsyncIterator[tuple[Broker, Broker]]:
    first, second = Broker(b"head"), Broker(b"edge1")
    for broker in (first, second):
        await broker.start()
    yield first, second


async def told(owner: Owner, *expected: str) -> None:
    async def so() -> bool:
        return owner.told == list(expected)

    try:
        await eventually(so, "it should be told", 5)
    except AssertionError:
        assert owner.told == list(expected)


async def test_the_next_broker_takes_the_place_of_one_that_dies_and_keeps_it() -> None:
    async with two_brokers() as (first, second), attachment(first, second) as owner:
        await told(owner, "attached to head")
        await first.kill()
        await told(owner, "attached to head", "lost", "attached to edge1 elsewhere")
        await first.start()
        await asyncio.sleep(0.3)
        assert first.callers == 1, "nobody goes back while the present one lives"
        await second.kill()
        await told(
            owner,
            "attached to head",
            "lost",
            "attached to edge1 elsewhere",
            "lost",
            "attached to head elsewhere",
        )


async def test_a_broker_that_falls_silent_is_doubted_and_then_left() -> None:
    async with two_brokers() as (first, second), attachment(first, second) as owner:
        await told(owner, "attached to head")
        first.silent = True
        await told(owner, "attached to head", "doubted", "lost", "attached to edge1 elsewhere")


async def test_a_broker_that_accepts_and_says_nothing_is_passed_over() -> None:
    async with two_brokers() as (first, second):
        first.silent = True
        async with attachment(first, second) as owner:
            await told(owner, "attached to edge1")


async def test_where_there_is_but_one_broker_it_is_waited_for_however_silent() -> None:
    only = Broker(b"head")
    await only.start()
    async with attachment(only) as owner:
        await told(owner, "attached to head")
        only.silent = True
        await asyncio.sleep(1.1)
        assert owner.told == ["attached to head"]
        await only.kill()
        only.silent = False
        await only.start()
        await told(owner, "attached to head", "lost", "attached to head")
