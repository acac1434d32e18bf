"""One calibration run: a broker kept busy with one combination of subscribers, filters and message size.

A publisher process sends as fast as the slowest subscriber lets it; a process with all subscribers drains
their sockets and counts bytes. What is measured is the broker: both ends handle whole buffers.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.queues
import os
import selectors
import socket
import time
from dataclasses import dataclass
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path

from mangrove.errors import MangroveError
from mangrove.testbed.load import end_processes

TOPIC = b"calibration.topic"
TIMEOUT_S = 30.0
STARTUP_S = 20.0
BATCH = 64
WINDOW_BYTES = 1 << 21
RECEIVE_BYTES = 1 << 18

_context = multiprocessing.get_context("spawn")


@dataclass(frozen=True, slots=True)
class Combination:
    """One point of the factorial experiment."""

    replication: int
    filters: int
    message_bytes: int


@dataclass(frozen=True, slots=True)
class Measured:
    """What one run took."""

    messages: int
    seconds: float
    cpu_s: float


def measure(port: int, broker_pid: int, combination: Combination, messages: int) -> Measured:
    """Send `messages` messages through the broker at 127.0.0.1:`port`."""
    received: Synchronized[int] = _context.Value("q", -1)
    results: multiprocessing.queues.Queue[tuple[int, float]] = _context.Queue()
    subscriber = _context.Process(
        target=_subscribe, args=(port, combination, messages, received, results), daemon=True
    )
    publisher = _context.Process(target=_publish, args=(port, combination, messages, received), daemon=True)
    subscriber.start()
    try:
        deadline = time.monotonic() + STARTUP_S
        while received.value < 0:
            if time.monotonic() > deadline or subscriber.exitcode is not None:
                raise MangroveError("the calibration's subscribers did not start")
            time.sleep(0.01)
        cpu_before = cpu_seconds(broker_pid)
        publisher.start()
        count, seconds = results.get(timeout=TIMEOUT_S + STARTUP_S)
        cpu = cpu_seconds(broker_pid) - cpu_before
    finally:
        end_processes((publisher, subscriber))
    if count < messages:
        raise MangroveError(f"{combination}: {count} of {messages} messages within {TIMEOUT_S:g} s")
    return Measured(count, seconds, cpu)


def cpu_seconds(pid: int) -> float:
    """Processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=STARTUP_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    _exchange(connection, b'CONNECT {"verbose":false}\r\n')
    return connection


def _exchange(connection: socket.socket, commands: bytes) -> None:
    connection.sendall(commands + b"PING\r\n")
    seen = b""
    while b"PONG\r\n" not in seen:
        part = connection.recv(65536)
        if not part:
            raise ConnectionError("the broker closed the connection")
        seen = seen[-16:] + part


def _publish(port: int, combination: Combination, messages: int, received: Synchronized[int]) -> None:
    connection = _connect(port)
    size = combination.message_bytes
    one = b"PUB %b %d\r\n%b\r\n" % (TOPIC, size, b"x" * size)
    batch = one * BATCH
    window = max(WINDOW_BYTES // (size + 64), 4 * BATCH)
    sent = 0
    deadline = time.monotonic() + TIMEOUT_S
    while sent < messages and time.monotonic() < deadline:
        if sent - received.value > window:
            time.sleep(0.0002)
            continue
        count = min(BATCH, messages - sent)
        connection.sendall(batch if count == BATCH else one * count)
        sent += count
    _exchange(connection, b"")
    connection.close()


def _subscribe(
    port: int,
    combination: Combination,
    messages: int,
    received: Synchronized[int],
    results: multiprocessing.queues.Queue[tuple[int, float]],
) -> None:
    idle = _connect(port)
    # Patterns that the broker holds and no message matches, of the shape that people use.
    others = (f"SUB calibration.other{number}.*.> {number + 2}\r\n" for number in range(combination.filters))
    _exchange(idle, "".join(others).encode())
    selector = selectors.DefaultSelector()
    counts: dict[socket.socket, int] = {}
    for _ in range(combination.replication):
        connection = _connect(port)
        _exchange(connection, b"SUB %b 1\r\n" % TOPIC)
        connection.setblocking(False)
        selector.register(connection, selectors.EVENT_READ)
        counts[connection] = 0
    length = len(b"MSG %b 1 %d\r\n\r\n" % (TOPIC, combination.message_bytes)) + combination.message_bytes
    received.value = 0
    results.put(_drain(selector, counts, length, messages, received))
    for connection in (*counts, idle):
        connection.close()


def _drain(
    selector: selectors.BaseSelector,
    counts: dict[socket.socket, int],
    length: int,
    messages: int,
    received: Synchronized[int],
) -> tuple[int, float]:
    """Count bytes until every subscriber has all messages; the slowest one sets the pace."""
    buffer = bytearray(RECEIVE_BYTES)
    start = end = 0.0
    deadline = time.monotonic() + TIMEOUT_S
    least = 0
    while least < messages and time.monotonic() < deadline:
        for key, _ in selector.select(timeout=0.5):
            connection = key.fileobj
            assert isinstance(connection, socket.socket)
            size = connection.recv_into(buffer)
            end = time.perf_counter()
            start = start or end
            if buffer.startswith(b"PING\r\n"):
                connection.sendall(b"PONG\r\n")
                size -= 6
            counts[connection] += size
        least = min(counts.values()) // length
        received.value = least
    return least, end - start
