"""Traffic that accounts for every message: numbered and stamped by the publisher, checked off by subscribers.

Unlike the streams of a demonstration it runs in processes of its own, over blocking sockets with whole
buffers (as `testbed/load.py` does), so that measuring hardly disturbs what is measured. All processes of a
machine read the same monotonic clock, hence latencies are exact.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import multiprocessing.queues
import queue
import socket
import struct
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.context import SpawnProcess
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event
from types import TracebackType
from typing import Self

import numpy as np

from mangrove.errors import MangroveError
from mangrove.testbed.accounting import Record
from mangrove.testbed.load import STARTUP_TIMEOUT_S, BrokerAddress, end_processes, open_socket

PAYLOAD_BYTES = 256
SETTLE_S = 3.0
LONGEST_SETTLE_S = 30.0
LONGEST_RUN_S = 300.0
LONGEST_PAUSE_S = 0.01
POLL_S = 0.1
RECEIVE_BYTES = 1 << 18

_STAMP = struct.Struct("<qq")  # number, time of sending
_context = multiprocessing.get_context("spawn")


@dataclass(frozen=True, slots=True)
class ProbeTopic:
    """Messages of one size on one subject at a steady rate, and where they are awaited."""

    subject: str
    rate_msg_s: float
    subscriber: BrokerAddress
    size_bytes: int = PAYLOAD_BYTES

    def __post_init__(self) -> None:
        if self.size_bytes < _STAMP.size:
            raise ValueError(f"a probe needs {_STAMP.size} bytes for its number and time")


def payload_number(payload: bytes) -> int:
    """Which message of its stream a probe is."""
    number: int = _STAMP.unpack_from(payload)[0]
    return number


class ProbeError(MangroveError):
    """A process of the traffic did not do its part; there is no honest account then."""


@dataclass(frozen=True, slots=True)
class _Sent:
    times: dict[str, bytes]


@dataclass(frozen=True, slots=True)
class _Arrived:
    numbers: dict[str, bytes]
    times: dict[str, bytes]
    closed: bool


class ProbeTraffic:
    """One publisher process for all topics, one subscriber process for each broker they are awaited at.

    In order: `subscribe`, `publish` when the interest has travelled, `stop_publishing`, `collect`. Leaving
    the context ends the processes.
    """

    def __init__(self, publisher: BrokerAddress, topics: Sequence[ProbeTopic]) -> None:
        self._publisher = publisher
        self._topics = tuple(topics)
        self._stop_publishing: Event = _context.Event()
        self._stop_subscribing: Event = _context.Event()
        self._results: multiprocessing.queues.Queue[_Sent | _Arrived] = _context.Queue()
        self._arrivals: list[Synchronized[int]] = []
        self._sent: Synchronized[int] = _context.Value("q", -1)
        self._processes: list[SpawnProcess] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop_publishing.set()
        self._stop_subscribing.set()
        await asyncio.to_thread(end_processes, self._processes)

    async def subscribe(self) -> None:
        """Start the subscribers and wait until their brokers have confirmed the subscriptions."""
        for address in dict.fromkeys(topic.subscriber for topic in self._topics):
            subjects = [topic.subject for topic in self._topics if topic.subscriber == address]
            counter: Synchronized[int] = _context.Value("q", -1)
            self._arrivals.append(counter)
            self._start(_subscribe, (address, subjects, counter, self._stop_subscribing, self._results))
        await self._until(
            lambda: all(counter.value >= 0 for counter in self._arrivals), "the subscribers did not start"
        )

    async def publish(self) -> None:
        """Start the publisher and wait until it sends."""
        self._start(
            _publish, (self._publisher, self._topics, self._sent, self._stop_publishing, self._results)
        )
        await self._until(lambda: self._sent.value > 0, "the publisher did not start")

    def stop_publishing(self) -> None:
        """No message after the present ones."""
        self._stop_publishing.set()

    async def collect(self) -> dict[str, Record]:
        """Wait until nothing comes any more, stop the subscribers, and put both sides' notes together."""
        self.stop_publishing()
        loop = asyncio.get_running_loop()
        end = loop.time() + LONGEST_SETTLE_S
        changed, count = loop.time(), -1
        while loop.time() < min(end, changed + SETTLE_S):
            arrived = sum(counter.value for counter in self._arrivals)
            if arrived != count:
                changed, count = loop.time(), arrived
            await asyncio.sleep(POLL_S)
        self._stop_subscribing.set()
        return await asyncio.to_thread(self._gather)

    # -- processes ----------------------------------------------------------------------------------------

    def _start(self, target: Callable[..., None], arguments: tuple[object, ...]) -> None:
        process = _context.Process(target=target, args=arguments, daemon=True)
        process.start()
        self._processes.append(process)

    async def _until(self, condition: Callable[[], bool], problem: str) -> None:
        deadline = time.monotonic() + STARTUP_TIMEOUT_S
        while not condition():
            ended = any(process.exitcode is not None for process in self._processes)
            if ended or time.monotonic() > deadline:
                raise ProbeError(problem)
            await asyncio.sleep(0.01)

    def _gather(self) -> dict[str, Record]:
        sent: dict[str, bytes] = {}
        arrived: dict[str, tuple[bytes, bytes]] = {}
        for _ in self._processes:
            try:
                note = self._results.get(timeout=STARTUP_TIMEOUT_S)
            except queue.Empty:
                raise ProbeError("a publisher or subscriber ended without an account") from None
            if isinstance(note, _Sent):
                sent = note.times
                continue
            if note.closed:
                raise ProbeError(
                    f"a broker closed the connection of the subscriber to {', '.join(note.numbers)}",
                    hint="its log tells why; a slow consumer is the usual reason",
                )
            arrived |= {subject: (note.numbers[subject], note.times[subject]) for subject in note.numbers}
        return {subject: Record(_times(sent[subject]), *map(_times, arrived[subject])) for subject in arrived}


def _times(data: bytes) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.frombuffer(data, dtype=np.int64)


def _publish(
    address: BrokerAddress,
    topics: tuple[ProbeTopic, ...],
    count: Synchronized[int],
    stop: Event,
    results: multiprocessing.queues.Queue[_Sent | _Arrived],
) -> None:
    """Send on a fixed schedule. What became due during a pause is sent at once after it, stamped as sent."""
    connection = open_socket(address)
    lines = [b"PUB %b %d\r\n" % (topic.subject.encode(), topic.size_bytes) for topic in topics]
    tails = [b"x" * (topic.size_bytes - _STAMP.size) + b"\r\n" for topic in topics]
    sent = [array("q") for _ in topics]
    start = time.monotonic_ns()
    end = start + int(LONGEST_RUN_S * 1e9)
    while not stop.is_set() and (now := time.monotonic_ns()) < end:
        parts: list[bytes] = []
        for topic, line, tail, times in zip(topics, lines, tails, sent, strict=True):
            due = int((now - start) / 1e9 * topic.rate_msg_s) + 1
            for number in range(len(times), due):
                parts += (line, _STAMP.pack(number, now), tail)
                times.append(now)
        connection.sendall(b"".join(parts))
        count.value = sum(map(len, sent))
        next_s = min(len(times) / topic.rate_msg_s for topic, times in zip(topics, sent, strict=True))
        time.sleep(min(LONGEST_PAUSE_S, max(0.0, next_s - (time.monotonic_ns() - start) / 1e9)))
    connection.sendall(b"PING\r\n")
    connection.recv(65536)
    results.put(_Sent({topic.subject: times.tobytes() for topic, times in zip(topics, sent, strict=True)}))
    connection.close()


def _subscribe(
    address: BrokerAddress,
    subjects: list[str],
    count: Synchronized[int],
    stop: Event,
    results: multiprocessing.queues.Queue[_Sent | _Arrived],
) -> None:
    """Note number and time of everything that arrives, until told to stop."""
    connection = open_socket(address)
    requests = [b"SUB %b %d\r\n" % (subject.encode(), sid) for sid, subject in enumerate(subjects)]
    connection.sendall(b"".join(requests) + b"PING\r\n")
    seen = b""
    while b"PONG\r\n" not in seen:
        seen += connection.recv(65536)
    count.value = 0
    connection.settimeout(POLL_S)
    books = [(array("q"), array("q")) for _ in subjects]
    held = b""
    closed = False
    while not stop.is_set():
        try:
            part = connection.recv(RECEIVE_BYTES)
        except TimeoutError:
            continue
        if not part:
            closed = True
            break
        held = _note(held + part, books, time.monotonic_ns(), connection)
        count.value = sum(len(numbers) for numbers, _ in books)
    results.put(
        _Arrived(
            {subject: numbers.tobytes() for subject, (numbers, _) in zip(subjects, books, strict=True)},
            {subject: times.tobytes() for subject, (_, times) in zip(subjects, books, strict=True)},
            closed,
        )
    )
    connection.close()


def _note(
    data: bytes, books: list[tuple[array[int], array[int]]], now: int, connection: socket.socket
) -> bytes:
    """Book all whole messages of a buffer; return the rest."""
    position = 0
    while (eol := data.find(b"\r\n", position)) >= 0:
        line = data[position:eol]
        if line.startswith(b"MSG "):
            fields = line.split(b" ")  # MSG subject sid [reply] size
            following = eol + 2 + int(fields[-1]) + 2
            if following > len(data):
                break
            number, _ = _STAMP.unpack_from(data, eol + 2)
            numbers, times = books[int(fields[2])]
            numbers.append(number)
            times.append(now)
            position = following
            continue
        if line == b"PING":
            connection.sendall(b"PONG\r\n")
        position = eol + 2
    return data[position:]
