"""The publishers and subscribers of a damage run, in processes of their own."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

from mangrove.client import Connection, Message, connect
from mangrove.testbed.damage.account import STAMP, Heard, Spoken
from mangrove.testbed.damage.workload import HOME, DamagePlan
from mangrove.testbed.worker_process import carry_out

TICK_S = 0.01
CONNECT_AT_ONCE = 10
CLOSE_S = 3.0
"""Who is behind a narrow line may have to wait long for a last word: it is not waited for."""


def _quiet() -> None:
    """Clients behind a narrow line complain of it all the time; what becomes of their messages is counted."""
    logging.getLogger("mangrove.client").setLevel(logging.ERROR)
    logging.getLogger("mangrove.broker").setLevel(logging.ERROR)


async def _close(connections: list[Connection]) -> None:
    """Close all, and leave those that cannot in time to the end of the process."""
    closing = [asyncio.create_task(connection.close()) for connection in connections]
    if closing:
        await asyncio.wait(closing, timeout=CLOSE_S)


# -- subscribers ------------------------------------------------------------------------------------------


def subscribe(pipe: Pipe, run_dir: Path, plan: DamagePlan, topics: list[int]) -> None:
    """Runs in a process: one client for each topic named; answers `open`, `progress`, `heard` and `end`."""
    import uvloop

    _quiet()
    uvloop.run(_Subscribers(run_dir, plan, topics).serve(pipe))


class _Subscribers:
    def __init__(self, run_dir: Path, plan: DamagePlan, topics: list[int]) -> None:
        self._run_dir = run_dir
        self._plan = plan
        self._topics = topics
        self._heard = [Heard() for _ in topics]
        self._counts: Counter[str] = Counter()
        self._connections: list[Connection] = []

    async def serve(self, pipe: Pipe) -> None:
        answers = {"open": self._open, "progress": self._progress, "heard": self._tell, "end": self._end}
        try:
            await carry_out(pipe, answers)
        finally:
            await _close(self._connections)

    async def _open(self, _: Any) -> int:
        for start in range(0, len(self._topics), CONNECT_AT_ONCE):
            chosen = range(start, min(start + CONNECT_AT_ONCE, len(self._topics)))
            await asyncio.gather(*(self._subscribe(position) for position in chosen))
        return len(self._connections)

    async def _subscribe(self, position: int) -> None:
        topic = self._plan.topics[self._topics[position]]
        book = self._heard[position].arrivals.append
        unpack = STAMP.unpack_from
        counts, speakers = self._counts, self._plan.speakers
        deadline_ns = topic.deadline_s * 1e9

        async def arrived(message: Message) -> None:
            publisher, sequence, sent_ns = unpack(message.data)
            now_ns = time.monotonic_ns()
            book((publisher, sequence, now_ns))
            quality = speakers[publisher].quality.value
            counts[f"{quality} delivered"] += 1
            counts[f"{quality} in time"] += now_ns - sent_ns <= deadline_ns

        connection = await connect(run_dir=self._run_dir, domain=HOME, name=f"desk-{topic.name}-{position}")
        self._connections.append(connection)
        await connection.subscribe(topic.name, callback=arrived, keywords=topic.interests or None)

    async def _progress(self, _: Any) -> dict[str, int]:
        """Arrivals by class, and those in time."""
        return dict(self._counts)

    async def _tell(self, _: Any) -> list[Heard]:
        return self._heard

    async def _end(self, _: Any) -> None:
        """Nothing is left to tell."""


# -- publishers -------------------------------------------------------------------------------------------


def publish(pipe: Pipe, run_dir: Path, plan: DamagePlan) -> None:
    """Runs in a process: one client for each publisher; answers `open`, `start`, `progress`, `stop`."""
    import uvloop

    _quiet()
    uvloop.run(_Publishers(run_dir, plan).serve(pipe))


class _Publishers:
    def __init__(self, run_dir: Path, plan: DamagePlan) -> None:
        self._run_dir = run_dir
        self._plan = plan
        self._padding = bytes(max(0, plan.payload_bytes - STAMP.size))
        self._sequences = [0] * len(plan.speakers)
        self._due = [0.0] * len(plan.speakers)
        self._spoken = Spoken()
        self._counts: Counter[str] = Counter()
        self._connections: list[Connection] = []
        self._publishing: asyncio.Task[None] | None = None

    async def serve(self, pipe: Pipe) -> None:
        answers = {
            "open": self._open,
            "start": self._start,
            "progress": self._progress,
            "stop": self._stop,
            "end": self._stop,
        }
        try:
            await carry_out(pipe, answers)
        finally:
            await _close(self._connections)

    async def _open(self, _: Any) -> int:
        for speaker in self._plan.speakers:
            name = f"{speaker.quality.value}-{speaker.number}"
            self._connections.append(await connect(run_dir=self._run_dir, domain=HOME, name=name))
        return len(self._connections)

    async def _start(self, _: Any) -> None:
        self._publishing = asyncio.create_task(self._publish())

    async def _progress(self, _: Any) -> dict[str, int]:
        """Deliveries that were offered and withheld, by class."""
        if self._publishing is not None and self._publishing.done():
            self._publishing.result()  # a failure is raised here, where somebody hears of it
        return dict(self._counts)

    async def _stop(self, _: Any) -> Spoken:
        """Publish no more; everything that was to be said."""
        if self._publishing is not None:
            self._publishing.cancel()
            await asyncio.gather(self._publishing, return_exceptions=True)
            self._publishing = None
        await asyncio.gather(*(connection.flush() for connection in self._connections))
        return self._spoken

    async def _publish(self) -> None:
        loop = asyncio.get_running_loop()
        last = loop.time()
        while True:
            await asyncio.sleep(TICK_S)
            now = loop.time()
            elapsed, last = min(now - last, 0.2), now
            for speaker in self._plan.speakers:
                number = speaker.number
                self._due[number] += elapsed * speaker.rate_msg_s
                while self._due[number] >= 1.0:
                    self._due[number] -= 1.0
                    await self._say(number)

    async def _say(self, number: int) -> None:
        speaker = self._plan.speakers[number]
        sequence = self._sequences[number] = self._sequences[number] + 1
        at_ns = time.monotonic_ns()
        self._spoken.at_ns[number, sequence] = at_ns
        quality = speaker.quality.value
        topic = self._plan.topics[speaker.topic]
        self._counts[f"{quality} offered"] += topic.subscribers
        outcome = await self._connections[number].publish(
            topic.name,
            STAMP.pack(number, sequence, at_ns) + self._padding,
            keywords=self._plan.keywords(number, sequence) or None,
        )
        if not outcome:
            self._spoken.withheld.add((number, sequence))
            self._counts[f"{quality} withheld"] += topic.subscribers
