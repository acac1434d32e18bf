"""Traffic between honest domains that goes on while others attack, in a process of its own.

What it says of a span: messages lost, doubled, and the longest silence, by a clock that stands still while
the process itself is held up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import NamedTuple

from mangrove.client import Connection, Message, connect
from mangrove.testbed.awake_time import AwakeTime
from mangrove.testbed.worker_process import Worker, carry_out

RATE_MSG_S = 100.0
SETTLE_S = 5.0
TOPIC = "honest"


class Span(NamedTuple):
    """What became of the messages since the last time that was asked."""

    sent: int
    lost: int
    doubled: int
    longest_gap_ms: float
    """At the subscriber that waited longest."""


class SteadyStream:
    """One stream from each of some domains to each of the others."""

    def __init__(self, run_dir: Path, domains: Sequence[str]) -> None:
        self._worker = Worker(_work, str(run_dir), tuple(domains))

    async def begin(self) -> None:
        """Start to publish, once everybody is heard by everybody."""
        await self._worker.ask("begin")

    async def span(self) -> Span:
        """The account since the last time, when all that was sent has arrived or will not any more."""
        return Span(*await self._worker.ask("span"))

    def end(self) -> None:
        """Stop, whatever it does."""
        self._worker.end()


class _Streams:
    def __init__(self, run_dir: str, domains: tuple[str, ...]) -> None:
        self._run_dir = Path(run_dir)
        self._domains = domains
        self._connections: dict[str, Connection] = {}
        self._numbers = dict.fromkeys(domains, 0)
        self._awaited: dict[tuple[str, str], set[int]] = {}
        self._doubled = 0
        self._sent = 0
        self._last: dict[tuple[str, str], float] = {}
        self._gap_s = 0.0
        self._awake = AwakeTime(asyncio.get_running_loop().time())
        self._tasks: list[asyncio.Task[None]] = []
        self._counting = False

    async def begin(self, _: object) -> None:
        for domain in self._domains:
            self._connections[domain] = await connect(run_dir=self._run_dir, domain=domain)
        for domain in self._domains:
            await self._listen(domain)
        pairs = [(one, other) for one in self._domains for other in self._domains if one != other]
        self._tasks = [asyncio.create_task(self._awake.beating())]
        while set(pairs) - set(self._last):  # who is not heard yet is not counted
            for domain in self._domains:
                await self._connections[domain].publish(f"{TOPIC}.{domain}", b"-1")
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)
        self._awaited = {pair: set() for pair in pairs}
        self._restart()
        self._counting = True
        self._tasks.append(asyncio.create_task(self._publish()))

    async def span(self, _: object) -> tuple[int, int, int, float]:
        loop = asyncio.get_running_loop()
        owed = {pair: set(numbers) for pair, numbers in self._awaited.items()}
        deadline = loop.time() + SETTLE_S
        while any(owed.values()) and loop.time() < deadline:
            await asyncio.sleep(0.02)
            owed = {pair: numbers & self._awaited[pair] for pair, numbers in owed.items()}
        lost = sum(map(len, owed.values()))
        for pair, numbers in owed.items():
            self._awaited[pair] -= numbers
        found = (self._sent, lost, self._doubled, 1000 * self._longest_s())
        self._restart()
        return found

    async def _listen(self, listener: str) -> None:
        async def arrived(message: Message) -> None:
            origin = message.subject.rpartition(".")[2]
            pair = (origin, listener)
            now = self._now()
            if pair in self._last:
                self._gap_s = max(self._gap_s, now - self._last[pair])
            self._last[pair] = now
            number = int(message.data)
            if number < 0 or not self._counting:
                return
            if number in self._awaited[pair]:
                self._awaited[pair].remove(number)
            else:
                self._doubled += 1

        for origin in self._domains:
            if origin != listener:
                await self._connections[listener].subscribe(f"{TOPIC}.{origin}", callback=arrived)

    async def _publish(self) -> None:
        loop = asyncio.get_running_loop()
        start, rounds = loop.time(), 0
        while True:
            rounds += 1
            for domain in self._domains:
                number = self._numbers[domain]
                self._numbers[domain] += 1
                self._sent += 1
                for listener in self._domains:
                    if listener != domain:
                        self._awaited[domain, listener].add(number)
                await self._connections[domain].publish(f"{TOPIC}.{domain}", b"%d" % number)
            await asyncio.sleep(max(0.0, start + rounds / RATE_MSG_S - loop.time()))

    def _now(self) -> float:
        return self._awake.at(asyncio.get_running_loop().time())

    def _longest_s(self) -> float:
        now = self._now()
        return max([self._gap_s, *(now - last for last in self._last.values())])

    def _restart(self) -> None:
        self._gap_s, self._sent, self._doubled = 0.0, 0, 0
        self._last = dict.fromkeys(self._last, self._now())


def _work(pipe: Pipe, run_dir: str, domains: tuple[str, ...]) -> None:
    async def serve() -> None:
        streams = _Streams(run_dir, domains)
        await carry_out(pipe, {"begin": streams.begin, "span": streams.span})

    asyncio.run(serve())
