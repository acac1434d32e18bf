"""The publishers and subscribers of all centres, in processes of their own, told what to do over a pipe."""

from __future__ import annotations

import asyncio
import logging
import time
from array import array
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mangrove.client import Connection, LimitedError, Message, NotConnectedError, Subscription, connect
from mangrove.host.runtime_file import find_running
from mangrove.model.broker_kinds import BrokerKind
from mangrove.model.endpoints import DomainEndpoints
from mangrove.testbed.surge.account import STAMP
from mangrove.testbed.tsunami.centres import PAYLOAD_BYTES, Flow, Reader
from mangrove.testbed.worker_process import carry_out

if TYPE_CHECKING:  # its library need not be there where there is no RabbitMQ
    from mangrove.testbed.tsunami.amqp_client import AmqpClient

TICK_S = 0.01
LONGEST_TICK_S = 0.2
"""A process that was held up for longer does not make up for it."""
CONNECT_AT_ONCE = 4
READY_S = 30.0
CLOSE_S = 3.0
NO_BROKER = "no broker could be reached"

Say = Callable[[bytes], Coroutine[None, None, str]]
"""Publish; the answer is empty if it was sent, and else why not."""


@dataclass(slots=True)
class Said:
    """What one publisher said: when it sent each message, and what it did not send, by reason."""

    sent_ns: array[int] = field(default_factory=lambda: array("q"))
    withheld: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Heard:
    """What one subscriber got, in the order of arrival."""

    flows: array[int] = field(default_factory=lambda: array("q"))
    numbers: array[int] = field(default_factory=lambda: array("q"))
    times_ns: array[int] = field(default_factory=lambda: array("q"))
    left_out: dict[str, int] = field(default_factory=dict)
    """What its own process did not keep up with, by reason."""

    def book(self, body: bytes) -> int:
        """One more; which flow it was of."""
        flow, number, _ = STAMP.unpack_from(body)
        self.flows.append(flow)
        self.numbers.append(number)
        self.times_ns.append(time.monotonic_ns())
        return int(flow)


class _Clients:
    """What both kinds of workers have in common: connections to the centres' brokers, of either kind.

    The federation need not run yet when this is made: loading a program takes as long as starting brokers.
    """

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._sites: Mapping[str, DomainEndpoints] = {}
        self._opened: list[Connection | AmqpClient] = []
        # Clients behind a narrow line complain of it all the time; what becomes of their messages is counted.
        for name in ("mangrove.client", "mangrove.broker"):
            logging.getLogger(name).setLevel(logging.ERROR)

    def speaks_amqp(self, site: str) -> DomainEndpoints | None:
        """The endpoints of a site whose clients speak AMQP; None for others."""
        self._sites = self._sites or find_running(None, self._run_dir).domains
        endpoints = self._sites[site]
        return endpoints if endpoints.head.kind is BrokerKind.RABBITMQ else None

    async def sdk(self, site: str, name: str) -> Connection:
        connection = await connect(run_dir=self._run_dir, domain=site, name=name)
        self._opened.append(connection)
        return connection

    async def amqp(self, endpoints: DomainEndpoints, name: str) -> AmqpClient:
        from mangrove.testbed.tsunami.amqp_client import AmqpClient

        client = AmqpClient(endpoints, name)
        self._opened.append(client)
        await client.open()
        return client

    async def close(self) -> None:
        """Close all, and leave those that cannot in time to the end of the process."""
        closing = [asyncio.create_task(each.close()) for each in self._opened]
        if closing:
            await asyncio.wait(closing, timeout=CLOSE_S)


async def _in_small_groups(openings: list[Coroutine[None, None, None]]) -> None:
    for start in range(0, len(openings), CONNECT_AT_ONCE):
        await asyncio.gather(*openings[start : start + CONNECT_AT_ONCE])


# -- subscribers ------------------------------------------------------------------------------------------


def subscribe(pipe: Pipe, run_dir: Path, readers: list[Reader], flows: list[Flow]) -> None:
    """Runs in a process: one client for each reader; answers `open`, `progress`, `heard` and `end`."""
    import uvloop

    uvloop.run(_Subscribers(run_dir, readers, flows).serve(pipe))


class _Subscribers:
    def __init__(self, run_dir: Path, readers: list[Reader], flows: list[Flow]) -> None:
        self._clients = _Clients(run_dir)
        self._readers = readers
        self._kinds = [flow.kind.value for flow in flows]
        self._heard = [Heard() for _ in readers]
        self._subscriptions: dict[int, Subscription] = {}
        self._counts: Counter[str] = Counter()

    async def serve(self, pipe: Pipe) -> None:
        answers = {"open": self._open, "progress": self._progress, "heard": self._tell, "end": self._end}
        try:
            await carry_out(pipe, answers)
        finally:
            await self._clients.close()

    async def _open(self, _: Any) -> None:
        await _in_small_groups([self._subscribe(place) for place in range(len(self._readers))])
        await asyncio.gather(*(each.ready(READY_S) for each in self._subscriptions.values()))

    async def _subscribe(self, place: int) -> None:
        reader = self._readers[place]
        name = f"desk-{reader.topic.replace('.', '-')}-{place}"
        book = self._heard[place].book

        def take(body: bytes) -> None:
            self._counts[f"{self._kinds[book(body)]} delivered"] += 1

        async def arrived(message: Message) -> None:
            take(bytes(message.data))

        endpoints = self._clients.speaks_amqp(reader.site)
        if endpoints is not None:
            await (await self._clients.amqp(endpoints, name)).subscribe(reader.topic, take)
            return
        connection = await self._clients.sdk(reader.site, name)
        self._subscriptions[place] = await connection.subscribe(
            reader.topic, callback=arrived, keywords=reader.keywords or None
        )

    async def _progress(self, _: Any) -> dict[str, int]:
        return dict(self._counts)

    async def _tell(self, _: Any) -> list[Heard]:
        for place, subscription in self._subscriptions.items():
            self._heard[place].left_out = dict(subscription.lost)
        return self._heard

    async def _end(self, _: Any) -> None:
        """Nothing is left to tell."""


# -- publishers -------------------------------------------------------------------------------------------


def publish(pipe: Pipe, run_dir: Path, flows: list[Flow]) -> None:
    """Runs in a process: one client for each flow; answers `open`, `start`, `burst`, `progress`, `stop`."""
    import uvloop

    uvloop.run(_Publishers(run_dir, flows).serve(pipe))


class _Publishers:
    def __init__(self, run_dir: Path, flows: list[Flow]) -> None:
        self._clients = _Clients(run_dir)
        self._flows = flows
        self._says: dict[int, Say] = {}
        self._flushes: list[Callable[[], Coroutine[None, None, None]]] = []
        self._said = [Said() for _ in flows]
        self._due = [0.0] * len(flows)
        self._rates = [flow.rate_msg_s for flow in flows]
        self._counts: Counter[str] = Counter()
        self._padding = bytes(PAYLOAD_BYTES - STAMP.size)
        self._publishing: asyncio.Task[None] | None = None
        self._speaking = True

    async def serve(self, pipe: Pipe) -> None:
        answers = {
            "open": self._open,
            "start": self._start,
            "burst": self._burst,
            "progress": self._progress,
            "stop": self._stop,
            "end": self._stop,
        }
        try:
            await carry_out(pipe, answers)
        finally:
            await self._clients.close()

    async def _open(self, _: Any) -> None:
        await _in_small_groups([self._connect(number) for number in range(len(self._flows))])

    async def _connect(self, number: int) -> None:
        flow = self._flows[number]
        endpoints = self._clients.speaks_amqp(flow.site)
        if endpoints is None:
            connection = await self._clients.sdk(flow.site, flow.name)
            self._says[number] = _by_sdk(connection, flow)
            self._flushes.append(connection.flush)
        else:
            client = await self._clients.amqp(endpoints, flow.name)
            self._says[number] = _by_amqp(client, flow.topic)
            self._flushes.append(client.confirmed)

    async def _start(self, _: Any) -> None:
        self._publishing = asyncio.create_task(self._publish())

    async def _burst(self, factors: dict[str, float]) -> None:
        """Topics that are not named go back to their own rate."""
        self._rates = [flow.rate_msg_s * factors.get(flow.topic, 1.0) for flow in self._flows]

    async def _progress(self, _: Any) -> dict[str, int]:
        if self._publishing is not None and self._publishing.done():
            self._publishing.result()  # a failure is raised here, where somebody hears of it
        return dict(self._counts)

    async def _stop(self, _: Any) -> list[Said]:
        """Publish no more; everything that was said."""
        self._speaking = False
        if self._publishing is not None:
            await self._publishing  # in the midst of a message it would be open whether that was sent
            self._publishing = None
        await asyncio.gather(*(flush() for flush in self._flushes))
        return self._said

    async def _publish(self) -> None:
        loop = asyncio.get_running_loop()
        last = loop.time()
        while self._speaking:
            await asyncio.sleep(TICK_S)
            now = loop.time()
            elapsed, last = min(now - last, LONGEST_TICK_S), now
            for number in range(len(self._flows)):
                self._due[number] += elapsed * self._rates[number]
                while self._due[number] >= 1.0:
                    self._due[number] -= 1.0
                    await self._say(number)

    async def _say(self, number: int) -> None:
        said, kind = self._said[number], self._flows[number].kind.value
        sequence, at_ns = len(said.sent_ns), time.monotonic_ns()
        why_not = await self._says[number](STAMP.pack(number, sequence, at_ns) + self._padding)
        self._counts[f"{kind} offered"] += 1
        if why_not:
            said.withheld[why_not] += 1
            self._counts[f"{kind} withheld"] += 1
        else:
            said.sent_ns.append(at_ns)


def _by_sdk(connection: Connection, flow: Flow) -> Say:
    async def say(body: bytes) -> str:
        try:
            outcome = await connection.publish(flow.topic, body, keywords=flow.keywords or None)
        except LimitedError:
            return "limited"
        except NotConnectedError:
            return NO_BROKER
        return "" if outcome else outcome.value

    return say


def _by_amqp(client: AmqpClient, topic: str) -> Say:
    async def say(body: bytes) -> str:
        client.publish(topic, body)
        return ""

    return say
