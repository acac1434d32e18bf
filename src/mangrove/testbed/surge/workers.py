"""The publishers and subscribers of a surge, in processes of their own, told what to do over a pipe."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

from mangrove.client import Connection, Message, connect
from mangrove.testbed.surge.account import STAMP, Arrivals, SubscriberAccount
from mangrove.testbed.surge.workload import SurgeTopic
from mangrove.testbed.worker_process import carry_out

TICK_S = 0.01
PUBLISHERS = 10
CONNECT_AT_ONCE = 10


@dataclass(frozen=True, slots=True)
class Reader:
    """One subscriber: its topic, by number, and the delay that it can bear."""

    number: int
    topic: SurgeTopic


# -- subscribers ------------------------------------------------------------------------------------------


def subscribe(pipe: Pipe, run_dir: Path, domain: str, readers: list[Reader]) -> None:
    """Runs in a process: SDK clients with one subscription each; answers `open`, `account` and `end`."""
    import uvloop

    uvloop.run(_Subscribers(run_dir, domain, readers).serve(pipe))


class _Subscribers:
    def __init__(self, run_dir: Path, domain: str, readers: list[Reader]) -> None:
        self._run_dir = run_dir
        self._domain = domain
        self._readers = readers
        self._arrivals = [Arrivals() for _ in readers]
        self._connections: list[Connection | None] = [None] * len(readers)

    async def serve(self, pipe: Pipe) -> None:
        try:
            await carry_out(pipe, {"open": self._open, "account": self._account, "end": self._end})
        finally:
            opened = [connection for connection in self._connections if connection is not None]
            await asyncio.gather(*(connection.close() for connection in opened))

    async def _open(self, _: Any) -> int:
        for start in range(0, len(self._readers), CONNECT_AT_ONCE):
            chosen = range(start, min(start + CONNECT_AT_ONCE, len(self._readers)))
            await asyncio.gather(*(self._subscribe(position) for position in chosen))
        return len(self._connections)

    async def _subscribe(self, position: int) -> None:
        book = self._arrivals[position].arrived
        unpack = STAMP.unpack_from

        async def arrived(message: Message) -> None:
            _, sequence, sent_ns = unpack(message.data)
            book(sequence, (time.monotonic_ns() - sent_ns) / 1e6)

        connection = await connect(run_dir=self._run_dir, domain=self._domain, name=f"surge-{position}")
        self._connections[position] = connection
        await connection.subscribe(self._readers[position].topic.name, callback=arrived)

    async def _account(self, sent: dict[str, int]) -> list[SubscriberAccount]:
        found = []
        for reader, arrivals, connection in zip(
            self._readers, self._arrivals, self._connections, strict=True
        ):
            assert connection is not None, "opened before it is asked for"
            found.append(
                SubscriberAccount(
                    topic=reader.topic.name,
                    delivered=arrivals.delivered,
                    lost=arrivals.lost(sent[reader.topic.name]),
                    duplicated=arrivals.duplicated,
                    reordered=arrivals.reordered,
                    longest_ms=arrivals.longest_ms,
                    deadline_ms=1000.0 * reader.topic.deadline_s,
                    moves=connection.moves.get("moved", 0),
                    dropped=connection.dropped.total(),
                )
            )
        return found

    async def _end(self, _: Any) -> None:
        """Nothing is left to tell."""


# -- publishers -------------------------------------------------------------------------------------------


def publish(pipe: Pipe, run_dir: Path, domain: str, topics: list[SurgeTopic], payload_bytes: int) -> None:
    """Runs in a process: SDK publishers of all topics; answers `open`, `start`, `burst`, `stop` and `end`."""
    import uvloop

    uvloop.run(_Publishers(run_dir, domain, topics, payload_bytes).serve(pipe))


class _Publishers:
    def __init__(self, run_dir: Path, domain: str, topics: list[SurgeTopic], payload_bytes: int) -> None:
        self._run_dir = run_dir
        self._domain = domain
        self._topics = topics
        self._padding = bytes(max(0, payload_bytes - STAMP.size))
        self._sent = [0] * len(topics)
        self._due = [0.0] * len(topics)
        self._rates = [topic.rate_msg_s for topic in topics]
        self._connections: list[Connection] = []
        self._publishing: asyncio.Task[None] | None = None

    async def serve(self, pipe: Pipe) -> None:
        try:
            await carry_out(
                pipe,
                {
                    "open": self._open,
                    "start": self._start,
                    "burst": self._burst,
                    "stop": self._stop,
                    "end": self._stop,
                },
            )
        finally:
            await asyncio.gather(*(connection.close() for connection in self._connections))

    async def _open(self, _: Any) -> int:
        for number in range(PUBLISHERS):
            self._connections.append(
                await connect(run_dir=self._run_dir, domain=self._domain, name=f"surge-publisher-{number}")
            )
        return len(self._connections)

    async def _start(self, _: Any) -> None:
        self._publishing = asyncio.create_task(self._publish())

    async def _burst(self, factors: dict[str, float]) -> None:
        """Topics that are not named go back to their own rate."""
        self._rates = [topic.rate_msg_s * factors.get(topic.name, 1.0) for topic in self._topics]

    async def _stop(self, _: Any) -> dict[str, int]:
        """Publish no more; how many messages were sent, by topic."""
        if self._publishing is not None:
            self._publishing.cancel()
            await asyncio.gather(self._publishing, return_exceptions=True)
            self._publishing = None
        await asyncio.gather(*(connection.flush() for connection in self._connections))
        return {topic.name: sent for topic, sent in zip(self._topics, self._sent, strict=True)}

    async def _publish(self) -> None:
        loop = asyncio.get_running_loop()
        last = loop.time()
        while True:
            await asyncio.sleep(TICK_S)
            now = loop.time()
            elapsed, last = min(now - last, 0.2), now
            for number, topic in enumerate(self._topics):
                self._due[number] += elapsed * self._rates[number]
                connection = self._connections[number % PUBLISHERS]
                while self._due[number] >= 1.0:
                    self._due[number] -= 1.0
                    self._sent[number] += 1
                    stamp = STAMP.pack(number, self._sent[number], time.monotonic_ns())
                    sent = False
                    try:
                        sent = bool(await connection.publish(topic.name, stamp + self._padding))
                    finally:
                        self._sent[number] -= not sent  # the next one that is sent has this number
