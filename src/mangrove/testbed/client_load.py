"""Load for comparing client libraries: the same messages through the SDK and through nats-py.

Each run has processes of its own, one for both ends or one for each, so that nothing is left over from the
run before. The publisher does not wait for the subscriber, as in life.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import multiprocessing.connection
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from multiprocessing.synchronize import Event
from typing import Any

import nats

from mangrove.client import connect
from mangrove.testbed.load import end_processes

TIMEOUT_S = 120.0
_context = multiprocessing.get_context("spawn")


class Library(StrEnum):
    """A client library."""

    NATS_PY = "nats-py"
    SDK = "sdk"


class Reader(StrEnum):
    """How a subscriber takes its messages."""

    CALLBACK = "callback"
    ITERATOR = "iterator"


@dataclass(frozen=True, slots=True)
class ClientLoad:
    """`messages` of `size_bytes` over `topics` subjects, read by one subscription or by one for each."""

    library: Library
    messages: int
    size_bytes: int = 256
    topics: int = 1
    wildcard: bool = False
    reader: Reader = Reader.CALLBACK
    processes: int = 1

    @property
    def subjects(self) -> list[str]:
        """What is published on."""
        return [f"load.topic.{number}" for number in range(self.topics)]

    @property
    def patterns(self) -> list[str]:
        """What is subscribed to."""
        return ["load.topic.*"] if self.wildcard else self.subjects


@dataclass(frozen=True, slots=True)
class ClientOutcome:
    """From the first publish to the last arrival; `cpu_s` of all processes of the run, the broker's not."""

    received: int
    seconds: float
    cpu_s: float

    @property
    def rate_msg_s(self) -> float:
        """Messages per second."""
        return self.received / self.seconds


def run_client_load(url: str, load: ClientLoad) -> ClientOutcome:
    """One run. RuntimeError if messages are missing."""
    listening, may_begin = _context.Event(), _context.Event()
    receiving, sending = _context.Pipe(duplex=False)
    roles = [(True, True)] if load.processes == 1 else [(False, True), (True, False)]
    processes = [
        _context.Process(target=_run, args=(url, load, *role, listening, may_begin, sending), daemon=True)
        for role in roles
    ]
    try:
        for process in processes:
            process.start()
        if not listening.wait(TIMEOUT_S):
            raise RuntimeError(f"{load.library}: no subscriber came")
        may_begin.set()
        parts = [_part(receiving) for _ in processes]
    finally:
        end_processes(processes)
    received = max(part.received for part in parts)
    if received < load.messages:
        raise RuntimeError(f"{load.library}: only {received} of {load.messages} messages arrived")
    begun, ended = min(part.begun_s for part in parts), max(part.ended_s for part in parts)
    return ClientOutcome(received, ended - begun, sum(part.cpu_s for part in parts))


@dataclass(frozen=True, slots=True)
class _Part:
    """What one process saw; times are the machine's."""

    received: int
    begun_s: float
    ended_s: float
    cpu_s: float


def _part(receiving: multiprocessing.connection.Connection) -> _Part:
    if not receiving.poll(TIMEOUT_S):
        raise RuntimeError("a client did not come to its end")
    part: _Part = receiving.recv()
    return part


def _run(
    url: str,
    load: ClientLoad,
    publishes: bool,
    subscribes: bool,
    listening: Event,
    may_begin: Event,
    sending: multiprocessing.connection.Connection,
) -> None:
    sending.send(asyncio.run(_both_ends(url, load, publishes, subscribes, listening, may_begin)))


async def _both_ends(
    url: str, load: ClientLoad, publishes: bool, subscribes: bool, listening: Event, may_begin: Event
) -> _Part:
    client: Any = await (connect(url) if load.library is Library.SDK else nats.connect(url))
    counting = _Counting(load.messages)
    if subscribes:
        for pattern in load.patterns:
            await _subscribe(client, load, pattern, counting)
        await client.flush()
        listening.set()
    await asyncio.to_thread(may_begin.wait, TIMEOUT_S)
    cpu_s, begun_s = time.process_time(), time.monotonic()
    if publishes:
        await _publish(client.publish, load)
        if not subscribes:
            await client.flush()
    if subscribes:
        await asyncio.wait_for(counting.done.wait(), TIMEOUT_S)
    ended_s, cpu_s = time.monotonic(), time.process_time() - cpu_s
    await client.close()
    return _Part(counting.received, begun_s, ended_s if subscribes else begun_s, cpu_s)


async def _publish(publish: Callable[[str, bytes], Awaitable[None]], load: ClientLoad) -> None:
    payload = bytes(load.size_bytes)
    subjects = load.subjects
    for _ in range(load.messages // len(subjects)):
        for subject in subjects:
            await publish(subject, payload)


class _Counting:
    """Counts arrivals; not more than a program that uses them would do at least."""

    def __init__(self, expected: int) -> None:
        self.received = 0
        self.done = asyncio.Event()
        self._expected = expected

    async def callback(self, _message: object) -> None:
        """One more."""
        self.received += 1
        if self.received == self._expected:
            self.done.set()

    async def read(self, messages: Any) -> None:
        """All that come."""
        async for message in messages:
            await self.callback(message)


async def _subscribe(client: Any, load: ClientLoad, pattern: str, counting: _Counting) -> None:
    if load.reader is Reader.CALLBACK:
        option = "callback" if load.library is Library.SDK else "cb"
        await client.subscribe(pattern, **{option: counting.callback})
        return
    subscription = await client.subscribe(pattern)
    messages = subscription if load.library is Library.SDK else subscription.messages
    task = asyncio.create_task(counting.read(messages))
    task.add_done_callback(lambda _: subscription)  # kept for as long as it is read
