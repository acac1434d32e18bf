"""Traffic between honest domains that goes on while others attack, in a process of its own.

What it says of a span: messages lost, doubled, and the longest silence, by a clock that stands still while
the machine keeps those who carry from the processor (`tests.kit.processor_waits`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from tests.kit.processor_waits import ProcessorWaits

from mangrove.client import Connection, Message, connect
from mangrove.testbed.worker_process import Worker, carry_out

RATE_MSG_S = 100.0
SETTLE_S = 5.0
NOTICEABLE_S = 0.05
TOPIC = "honest"


class Span(NamedTuple):
    """What became of the messages since the last time that was asked."""

    sent: int
    lost: int
    doubled: int
    longest_gap_ms: float
    """At the subscriber that waited longest, less what the machine is to blame for."""
    longest_wall_ms: float
    """The same by the clock on the wall."""


class SteadyStream:
    """One stream from each of some domains to each of the others."""

    def __init__(self, run_dir: Path, domains: Sequence[str], carriers: Sequence[int]) -> None:
        """`carriers` are the processes that messages go through."""
        self._worker = Worker(_work, str(run_dir), tuple(domains), tuple(carriers))

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
    def __init__(self, run_dir: str, domains: tuple[str, ...], carriers: tuple[int, ...]) -> None:
        self._run_dir = Path(run_dir)
        self._domains = domains
        self._connections: dict[str, Connection] = {}
        self._numbers = dict.fromkeys(domains, 0)
        self._awaited: dict[tuple[str, str], set[int]] = {}
        self._doubled = 0
        self._sent = 0
        self._last: dict[tuple[str, str], float] = {}
        self._gaps: list[tuple[float, float]] = []
        """From when to when nothing came, if that was noticeable."""
        self._waits = ProcessorWaits(carriers)
        self._tasks: list[asyncio.Task[None]] = []
        self._counting = False

    async def begin(self, _: object) -> None:
        for domain in self._domains:
            self._connections[domain] = await connect(run_dir=self._run_dir, domain=domain)
        for domain in self._domains:
            await self._listen(domain)
        pairs = [(one, other) for one in self._domains for other in self._domains if one != other]
        self._waits.start()
        while set(pairs) - set(self._last):  # who is not heard yet is not counted
            for domain in self._domains:
                await self._connections[domain].publish(f"{TOPIC}.{domain}", b"-1")
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)
        self._awaited = {pair: set() for pair in pairs}
        self._restart()
        self._counting = True
        self._tasks.append(asyncio.create_task(self._publish()))

    async def span(self, _: object) -> tuple[int, int, int, float, float]:
        loop = asyncio.get_running_loop()
        owed = {pair: set(numbers) for pair, numbers in self._awaited.items()}
        deadline = loop.time() + SETTLE_S
        while any(owed.values()) and loop.time() < deadline:
            await asyncio.sleep(0.02)
            owed = {pair: numbers & self._awaited[pair] for pair, numbers in owed.items()}
        lost = sum(map(len, owed.values()))
        for pair, numbers in owed.items():
            self._awaited[pair] -= numbers
        self._waits.settle()
        now = self._now()
        gaps = [*self._gaps, *((last, now) for last in self._last.values())]
        longest_s = max(self._waits.between(*gap) for gap in gaps)
        wall_s = max(end - start for start, end in gaps)
        found = (self._sent, lost, self._doubled, 1000 * longest_s, 1000 * wall_s)
        self._restart()
        return found

    async def _listen(self, listener: str) -> None:
        async def arrived(message: Message) -> None:
            origin = message.subject.rpartition(".")[2]
            pair = (origin, listener)
            now = self._now()
            if pair in self._last and now - self._last[pair] > NOTICEABLE_S:
                self._gaps.append((self._last[pair], now))
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
        return monotonic()

    def _restart(self) -> None:
        self._gaps, self._sent, self._doubled = [], 0, 0
        self._last = dict.fromkeys(self._last, self._now())


def _work(pipe: Pipe, run_dir: str, domains: tuple[str, ...], carriers: tuple[int, ...]) -> None:
    async def serve() -> None:
        streams = _Streams(run_dir, domains, carriers)
        await carry_out(pipe, {"begin": streams.begin, "span": streams.span})

    asyncio.run(serve())
