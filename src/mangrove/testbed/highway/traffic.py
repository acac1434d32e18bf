"""Publishers and subscribers of a highway, all in one process, which note what they send and what arrives."""

from __future__ import annotations

import asyncio
import contextlib
import struct
import time
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from mangrove.client import Connection, Message, NotConnectedError, connect
from mangrove.model.agents.directory import DirectoryRecord
from mangrove.testbed.accounting import Figures, Record, Span, figures
from mangrove.testbed.highway.regions import Flow

TICK_S = 0.005
LATE_MS = 100.0
READY_S = 20.0
STOP_S = 5.0
_NUMBER = struct.Struct("<q")


class Stream:
    """One flow at one of its subscribers."""

    def __init__(self, flow: Flow, subscriber: str) -> None:
        self.flow = flow
        self.subscriber = subscriber
        self.sent: array[int] = array("q")
        """Shared with the other subscribers of the flow."""
        self.numbers: array[int] = array("q")
        self.times: array[int] = array("q")

    async def take(self, message: Message) -> None:
        """Note an arrival."""
        self.numbers.append(_NUMBER.unpack_from(message.data)[0])
        self.times.append(time.monotonic_ns())

    @property
    def silent_s(self) -> float:
        """Since the last arrival."""
        return (time.monotonic_ns() - self.times[-1]) / 1e9 if self.times else 0.0

    def account(self, span: Span) -> Figures:
        """What became of what was sent in a span."""
        sent, numbers, times = (
            np.array(each, dtype=np.int64) for each in (self.sent, self.numbers, self.times)
        )
        return figures(Record(sent, numbers, times), span, LATE_MS)


class HighwayTraffic:
    """All flows of a highway. Use as an async context manager."""

    def __init__(self, run_dir: Path, flows: Sequence[Flow]) -> None:
        self._run_dir = run_dir
        self._flows = flows
        self.streams = [Stream(flow, domain) for flow in flows for domain in flow.subscribers]
        self._publishers: dict[str, Connection] = {}
        self._subscribers: dict[str, Connection] = {}
        self._publishing = False
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        try:
            await self._open()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _open(self) -> None:
        for domain in dict.fromkeys(flow.publisher for flow in self._flows):
            self._publishers[domain] = await connect(
                run_dir=self._run_dir, domain=domain, name="highway publisher"
            )
        for domain in dict.fromkeys(stream.subscriber for stream in self.streams):
            self._subscribers[domain] = await connect(
                run_dir=self._run_dir, domain=domain, name="highway subscriber"
            )
        for stream in self.streams:
            connection = self._subscribers[stream.subscriber]
            subscription = await connection.subscribe(stream.flow.topic, callback=stream.take)
            await subscription.ready(READY_S)

    def publish(self) -> None:
        """Begin to publish all flows."""
        self._publishing = True
        for flow in self._flows:
            sent = array("q")
            for stream in self._of(flow):
                stream.sent = sent
            self._tasks.append(asyncio.create_task(self._publish(flow, sent), name=f"publish {flow.topic}"))

    async def mirrored(self, seconds: float = READY_S) -> None:
        """Wait until all mirrors are connected to."""
        everybody = [*self._publishers.values(), *self._subscribers.values()]
        await asyncio.gather(*(each.mirrored(seconds) for each in everybody))

    async def _publish(self, flow: Flow, sent: array[int]) -> None:
        connection = self._publishers[flow.publisher]
        begun = time.monotonic()
        while self._publishing:
            for number in range(len(sent), int((time.monotonic() - begun) * flow.rate_msg_s) + 1):
                sent.append(time.monotonic_ns())
                with contextlib.suppress(NotConnectedError):  # it counts as lost
                    await connection.publish(flow.topic, _NUMBER.pack(number))
            await asyncio.sleep(TICK_S)

    async def stop(self) -> None:
        """Publish no more."""
        self._publishing = False
        if self._tasks:
            _, stuck = await asyncio.wait(self._tasks, timeout=STOP_S)
            for task in stuck:
                task.cancel()
            self._tasks.clear()

    def record(self, domain: str, topic: str) -> DirectoryRecord | None:
        """Where a topic is served in a domain, as its subscribers know."""
        connection = self._subscribers.get(domain)
        return None if connection is None else connection.directory.get(topic)

    async def close(self) -> None:
        """Disconnect everybody."""
        await self.stop()
        everybody = [*self._publishers.values(), *self._subscribers.values()]
        await asyncio.gather(*(each.close() for each in everybody))

    def _of(self, flow: Flow) -> Iterator[Stream]:
        return (stream for stream in self.streams if stream.flow is flow)
