"""One client subscribes to a great many subjects, or without end: what others feel of it, on real brokers."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.kit.bare_sockets import nats_socket
from tests.kit.processor_waits import ProcessorWaits
from tests.kit.running import Running
from tests.kit.waiting import eventually

import mangrove
from mangrove.config import parse_federation
from mangrove.model.shared_names import WAN_PROCESS
from mangrove.testbed.local_federation import LocalFederation

CHAIN = """
federation: stormy
domains: {a: {}, b: {edges: 1}, c: {}}
links:
  - {between: [a, b], delay_ms: 5}
  - {between: [b, c], delay_ms: 5}
"""
SUBJECTS = 20_000
MANY = 100_000
ANSWER_S = 1.0
SLOWEST_S = 1.0
"""Bounds for a loaded machine, less the time for which it lets nobody run who carries messages or answers;
`mangrove bench storm` measures."""


@pytest.fixture(scope="module")
async def stormy(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    directory: Path = tmp_path_factory.mktemp("state") / "stormy"
    federation = parse_federation(CHAIN, "stormy").require()
    async with LocalFederation(federation, directory, ephemeral=True) as launched:
        running = Running(launched)
        await running.links_up()
        yield running


class PlainClient:
    """Writes what it says as it is, as fast as the broker takes it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self._listening = asyncio.create_task(self._listen(reader))

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        while line := await reader.readline():
            if line.startswith(b"PING"):
                self.writer.write(b"PONG\r\n")

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def close(self) -> None:
        self._listening.cancel()
        self.writer.close()
        await asyncio.gather(self._listening, return_exceptions=True)


@asynccontextmanager
async def plain_client(running: Running, domain: str) -> AsyncIterator[PlainClient]:
    head = running.launched.endpoints[domain].head
    client = PlainClient(*await nats_socket(head.client_port))
    try:
        yield client
    finally:
        await client.close()
        await running.at_rest()


def storm(count: int = SUBJECTS) -> bytes:
    return b"".join(b"SUB storm.subject.%d %d\r\n" % (number, number + 1) for number in range(count))


@pytest.fixture
def waits(stormy: Running) -> Iterator[ProcessorWaits]:
    """Of all who carry messages or answer, but for the broker in `b`: a storm keeps that one at work."""
    endpoints = stormy.launched.endpoints
    names = {endpoints[name].head.name for name in "ac"} | {endpoints["b"].management.name, WAN_PROCESS}
    found = [
        each.pid
        for each in stormy.launched.processes()
        if each.name in names or each.name.endswith("-gateway")
    ]
    pids = [pid for pid in found if pid is not None]
    assert len(pids) == len(names) + len(endpoints)
    waits = ProcessorWaits(pids)
    waits.start()
    yield waits
    waits.stop()


class Stream:
    """A steady stream between two domains; when each message was sent and came."""

    def __init__(self, running: Running, source: str, destination: str) -> None:
        self._where = running.launched.directory
        self._ends = (source, destination)
        self.sent = 0
        self._times: list[tuple[float, float]] = []

    def slowest_s(self, waits: ProcessorWaits) -> float:
        """How long a message took at most, less what the machine is to blame for."""
        waits.settle()
        return max(waits.between(*times) for times in self._times)

    @asynccontextmanager
    async def flowing(self) -> AsyncIterator[None]:
        source, destination = self._ends
        async with (
            mangrove.connect(domain=destination, run_dir=self._where) as subscriber,
            mangrove.connect(domain=source, run_dir=self._where) as publisher,
        ):

            async def take(message: mangrove.Message) -> None:
                self._times.append((float(message.data), time.monotonic()))

            subscription = await subscriber.subscribe("steady.stream", callback=take)
            await subscription.ready()
            publishing = asyncio.create_task(self._publish(publisher))
            try:
                yield
            finally:
                publishing.cancel()
                await asyncio.gather(publishing, return_exceptions=True)

            async def all_came() -> bool:
                return len(self._times) >= self.sent

            await eventually(all_came, f"{self.sent} messages should have come")

    async def _publish(self, publisher: mangrove.Connection) -> None:
        while True:
            self.sent += 1
            await publisher.publish("steady.stream", b"%f" % time.monotonic())
            await asyncio.sleep(0.01)


async def answers_at_once(running: Running, domain: str, waits: ProcessorWaits) -> None:
    gateway = running.launched.sites[domain].gateway
    asked, pid = time.monotonic(), gateway.pid
    await running.gateway(domain)
    answered = time.monotonic()
    waits.settle()
    assert waits.between(asked, answered) < ANSWER_S
    assert gateway.pid == pid, "it went on to run"


async def test_ready_is_true_in_a_storm_and_never_too_early(stormy: Running) -> None:
    """In the busy domain, at its edge: what every other domain publishes right after ready() arrives."""
    where = stormy.launched.directory
    async with (
        plain_client(stormy, "b") as client,
        mangrove.connect(domain="b", run_dir=where) as busy,
        mangrove.connect(domain="a", run_dir=where) as first,
        mangrove.connect(domain="c", run_dir=where) as last,
    ):
        telling = asyncio.create_task(client.say(storm()))
        for number in range(5):
            async with await busy.subscribe(f"mine.{number}") as subscription:
                await subscription.ready(timeout=10.0)
                for other in (first, last):
                    await other.publish(f"mine.{number}", b"at once")
                for _ in (first, last):
                    assert (await subscription.next(timeout=5)).data == b"at once"
        await telling


async def test_who_unsubscribes_and_subscribes_again_is_not_ready_too_early(stormy: Running) -> None:
    """The old subscription is still known everywhere when the new one asks; its end is on the way."""
    where = stormy.launched.directory
    async with (
        plain_client(stormy, "b") as client,
        mangrove.connect(domain="b", run_dir=where) as busy,
        mangrove.connect(domain="c", run_dir=where) as other,
    ):
        subscription = await busy.subscribe("again")
        await subscription.ready()
        await subscription.unsubscribe()
        await client.say(storm(2 * SUBJECTS))
        subscription = await busy.subscribe("again")
        await subscription.ready()
        for number in range(100):
            await other.publish("again", b"%d" % number)
            await asyncio.sleep(0.005)
        for number in range(100):
            assert (await subscription.next(timeout=5)).data == b"%d" % number
        await subscription.unsubscribe()


async def test_the_command_line_waits_in_a_storm(stormy: Running) -> None:
    where = str(stormy.launched.directory)
    command = (sys.executable, "-m", "mangrove.cli.main")
    async with plain_client(stormy, "b") as client:
        telling = asyncio.create_task(client.say(storm()))
        process = await asyncio.create_subprocess_exec(
            *(*command, "sub", "told", "--wait", "--count", "2", "--domain", "b", "--run-dir", where),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stderr is not None
        while b"ready" not in (line := await process.stderr.readline()):
            assert line, "it ended before it was ready"
        for name in "ac":
            async with mangrove.connect(domain=name, run_dir=Path(where)) as other:
                await other.publish("told", b"once")
        out, _ = await asyncio.wait_for(process.communicate(), 20)
        assert out == b"told: once\n" * 2
        await telling


async def test_a_client_that_flaps_at_full_speed_starves_nobody(
    stormy: Running, waits: ProcessorWaits
) -> None:
    passing, own = Stream(stormy, "a", "c"), Stream(stormy, "b", "c")
    flaps = b"SUB flap 1\r\nUNSUB 1\r\n" * 1000
    async with plain_client(stormy, "b") as client, passing.flowing():
        begun = time.monotonic()
        while time.monotonic() < begun + 3.0:
            await client.say(flaps)
            await answers_at_once(stormy, "b", waits)
    assert passing.slowest_s(waits) < SLOWEST_S
    async with plain_client(stormy, "b") as client, own.flowing():
        begun = time.monotonic()
        while time.monotonic() < begun + 3.0:
            await client.say(flaps)
            await asyncio.sleep(0.001)
    assert own.slowest_s(waits) < SLOWEST_S, "also of the domain that the client is in"


@pytest.mark.parametrize("count", [SUBJECTS, pytest.param(MANY, marks=pytest.mark.soak)])
async def test_the_same_subscription_made_again_and_again_starves_nobody(
    stormy: Running, waits: ProcessorWaits, count: int
) -> None:
    stream = Stream(stormy, "a", "c")
    same = b"".join(b"SUB same group %d\r\n" % number for number in range(1, count))
    async with plain_client(stormy, "b") as client, stream.flowing():
        telling = asyncio.create_task(client.say(same))
        for _ in range(10):
            await answers_at_once(stormy, "b", waits)
            await asyncio.sleep(0.1)
        await telling
        await stormy.knows_interest("a", "b", 1)
    assert stream.slowest_s(waits) < SLOWEST_S


@pytest.mark.parametrize("count", [SUBJECTS, pytest.param(MANY, marks=pytest.mark.soak)])
async def test_a_head_broker_that_restarts_while_much_is_wanted_delays_nobody_else(
    stormy: Running, waits: ProcessorWaits, count: int
) -> None:
    """The gateway in the middle subscribes anew to what the last domain wants; a stream passes it."""
    stream = Stream(stormy, "a", "c")
    async with plain_client(stormy, "c") as client:
        await client.say(storm(count))
        await stormy.knows_interest("b", "c", count)
        async with stream.flowing():
            (head,) = (each for each in stormy.launched.sites["b"].processes() if each.name == "b-head")
            assert head.pid is not None
            os.kill(head.pid, signal.SIGKILL)
            await asyncio.sleep(1.0)
            await stormy.knows_interest("b", "c", count + 1)
    assert stream.slowest_s(waits) < SLOWEST_S
