"""Load for measurements: one publisher and one subscriber process that cost as little as possible.

Both speak the NATS client protocol over a blocking socket with whole buffers, so that what is measured is the
path between them. The subscriber counts by length: all messages of a run are equally long.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.queues
import socket
import ssl
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from multiprocessing.context import SpawnProcess
from multiprocessing.sharedctypes import Synchronized

PAYLOAD_BYTES = 256
RECEIVE_BYTES = 1 << 18
BATCH_MESSAGES = 128
STARTUP_TIMEOUT_S = 20.0

BrokerAddress = tuple[str, int, str] | tuple[str, int, str, str]
"""Host, port, and CONNECT options as JSON; and the file of who certifies brokers, where they are secured."""

# How far a run is, in the counter of received messages before there are any: the subscriber subscribes; a
# probe of the publisher comes through, so its side knows of the subscription; the last probe has been read.
STARTING, SUBSCRIBED, HEARD, READY = -3, -2, -1, 0
PROBE_S = 0.01
PROBE = b"PUB load.probe 0\r\n\r\n"
LAST_PROBE = b"PUB load.begin 0\r\n\r\n"

PLAIN_OPTIONS = '{"verbose":false,"pedantic":false,"protocol":1}'

_context = multiprocessing.get_context("spawn")


@dataclass(frozen=True, slots=True)
class Load:
    """What to send: `messages` messages over `topics` subjects, unpaced if `rate_msg_s` is zero."""

    messages: int
    topics: int = 1
    rate_msg_s: float = 0.0
    window_messages: int = 1 << 15
    timeout_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the subscriber saw."""

    received: int
    seconds: float
    latencies_s: list[float]

    @property
    def rate_msg_s(self) -> float:
        """Messages per second between the first and the last arrival."""
        return self.received / self.seconds if self.seconds > 0 else 0.0


def run_between_accounts(account: str, ports: list[int], load: Load) -> Outcome:
    """Run one load between two brokers of this machine, as the user of an account that is called after it."""
    options = f'{{"verbose":false,"pedantic":false,"user":"{account}","pass":"{account}","protocol":1}}'
    return run_load(("127.0.0.1", ports[0], options), ("127.0.0.1", ports[1], options), load)


def run_load(publish_url: BrokerAddress, subscribe_url: BrokerAddress, load: Load) -> Outcome:
    """Run one load between two brokers."""
    counter: Synchronized[int] = _context.Value("q", STARTING)
    results: multiprocessing.queues.Queue[Outcome] = _context.Queue()
    subscriber = _context.Process(
        target=_subscribe, args=(subscribe_url, load, counter, results), daemon=True
    )
    publisher = _context.Process(target=_publish, args=(publish_url, load, counter), daemon=True)
    subscriber.start()
    try:
        publisher.start()
        _wait_for(lambda: counter.value >= READY, (subscriber, publisher))
        return results.get(timeout=load.timeout_s + STARTUP_TIMEOUT_S)
    finally:
        end_processes((publisher, subscriber))


def end_processes(processes: Iterable[SpawnProcess]) -> None:
    """Let processes that were started come to their end, or end them."""
    for process in processes:
        if process.pid is not None:
            process.join(timeout=2.0)
            if process.is_alive():
                process.kill()
                process.join()


def _wait_for(condition: Callable[[], bool], processes: Iterable[SpawnProcess]) -> None:
    deadline = time.monotonic() + STARTUP_TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline or any(process.exitcode is not None for process in processes):
            raise RuntimeError("no message of the load came through")
        time.sleep(PROBE_S)


def open_socket(url: BrokerAddress) -> socket.socket:
    """A blocking connection to a broker that has accepted us."""
    host, port, options, *authority = url
    connection = socket.create_connection((host, port), timeout=STARTUP_TIMEOUT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if authority:
        connection = _encrypted(connection, host, authority[0])
    connection.sendall(f"CONNECT {options}\r\nPING\r\n".encode())
    seen = b""
    while b"PONG\r\n" not in seen:
        part = connection.recv(65536)
        if not part or b"-ERR" in seen:
            raise ConnectionError(f"{host}:{port} refused the connection: {seen[-200:]!r}")
        seen += part
    return connection


def _encrypted(connection: socket.socket, host: str, authority: str) -> socket.socket:
    """The same connection, encrypted if the broker wants it; it says so before anything else."""
    info = b""
    while not info.endswith(b"\r\n"):
        part = connection.recv(65536)
        if not part:
            raise ConnectionError(f"{host} closed the connection: {info[-200:]!r}")
        info += part
    if b'"tls_required":true' not in info:
        return connection
    return ssl.create_default_context(cafile=authority).wrap_socket(connection, server_hostname=host)


def _subject(number: int) -> bytes:
    return b"load.%06d" % number


def _publish(url: BrokerAddress, load: Load, received: Synchronized[int]) -> None:
    connection = open_socket(url)
    _probe(connection, received)
    if load.rate_msg_s:
        _publish_paced(connection, load)
    else:
        _publish_windowed(connection, load, received)
    connection.sendall(b"PING\r\n")
    connection.recv(65536)
    connection.close()


def _probe(connection: socket.socket, received: Synchronized[int]) -> None:
    """Publish until the subscriber hears it, and go on when it has heard the last of it."""
    while received.value < HEARD:
        if received.value == SUBSCRIBED:
            connection.sendall(PROBE)
        time.sleep(PROBE_S)
    connection.sendall(LAST_PROBE)
    while received.value < READY:
        time.sleep(PROBE_S)


def _publish_windowed(connection: socket.socket, load: Load, received: Synchronized[int]) -> None:
    """As fast as the path takes it, never more than a window ahead: nothing is dropped."""
    payload = b"x" * PAYLOAD_BYTES
    lines = [b"PUB %b %d\r\n%b\r\n" % (_subject(i), PAYLOAD_BYTES, payload) for i in range(load.topics)]
    repeated = (lines * (BATCH_MESSAGES // len(lines) + 1))[: max(BATCH_MESSAGES, len(lines))]
    batch = b"".join(repeated)
    count = len(repeated)
    line_bytes = len(lines[0])
    sent = 0
    deadline = time.monotonic() + load.timeout_s
    while sent < load.messages and time.monotonic() < deadline:
        if sent - received.value > load.window_messages:
            time.sleep(0.0005)
            continue
        part = min(count, load.messages - sent)
        connection.sendall(batch if part == count else batch[: part * line_bytes])
        sent += part


def _publish_paced(connection: socket.socket, load: Load) -> None:
    """One message at a time on a fixed schedule, each carrying its time of sending."""
    subjects = [_subject(i) for i in range(load.topics)]
    padding = b"x" * (PAYLOAD_BYTES - 20)
    start = time.perf_counter()
    sent = 0
    while sent < load.messages:
        due = min(load.messages, int((time.perf_counter() - start) * load.rate_msg_s) + 1)
        for number in range(sent, due):
            connection.sendall(
                b"PUB %b %d\r\n%020d%b\r\n"
                % (subjects[number % load.topics], PAYLOAD_BYTES, time.perf_counter_ns(), padding)
            )
        sent = due
        time.sleep(max(0.0, start + sent / load.rate_msg_s - time.perf_counter()))


def _subscribe(
    url: BrokerAddress,
    load: Load,
    received: Synchronized[int],
    results: multiprocessing.queues.Queue[Outcome],
) -> None:
    connection = open_socket(url)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    connection.sendall(b"SUB load.* 1\r\nPING\r\n")
    seen = b""
    while b"PONG\r\n" not in seen:
        seen += connection.recv(65536)
    message_bytes = len(b"MSG %b 1 %d\r\n\r\n" % (_subject(0), PAYLOAD_BYTES)) + PAYLOAD_BYTES
    received.value = SUBSCRIBED
    _hear_probes(connection, received)
    if load.rate_msg_s:
        results.put(_collect_latencies(connection, load, message_bytes))
    else:
        results.put(_count(connection, load, message_bytes, received))
    connection.close()


def _hear_probes(connection: socket.socket, received: Synchronized[int]) -> None:
    """Read probes until the last one; nothing follows before we say that we are ready."""
    connection.settimeout(STARTUP_TIMEOUT_S)
    seen = b""
    while b"MSG load.begin 1 0\r\n\r\n" not in seen:
        part = connection.recv(65536)
        if not part:
            raise ConnectionError("the broker closed the connection before the load began")
        seen += part
        if part.endswith(b"PING\r\n"):
            connection.sendall(b"PONG\r\n")
        if b"MSG load.probe" in seen:
            received.value = HEARD
    received.value = READY


def _count(connection: socket.socket, load: Load, message_bytes: int, received: Synchronized[int]) -> Outcome:
    buffer = bytearray(RECEIVE_BYTES)
    connection.settimeout(load.timeout_s)
    total_bytes = first_bytes = 0
    start = end = 0.0
    wanted = load.messages * message_bytes
    try:
        while total_bytes < wanted:
            size = connection.recv_into(buffer)
            if not size:
                break
            end = time.perf_counter()
            if buffer.startswith(b"PING\r\n"):
                connection.sendall(b"PONG\r\n")
                size -= 6
            total_bytes += size
            if not start:
                start, first_bytes = end, total_bytes
            received.value = total_bytes // message_bytes
    except TimeoutError:
        pass
    return Outcome((total_bytes - first_bytes) // message_bytes, end - start, [])


def _collect_latencies(connection: socket.socket, load: Load, message_bytes: int) -> Outcome:
    connection.settimeout(5.0)
    held = b""
    latencies: list[float] = []
    start = time.perf_counter()
    try:
        while len(latencies) < load.messages:
            part = connection.recv(RECEIVE_BYTES)
            now = time.perf_counter_ns()
            if not part:
                break
            held += part.replace(b"PING\r\n", b"")
            if part.startswith(b"PING\r\n"):
                connection.sendall(b"PONG\r\n")
            whole = len(held) // message_bytes
            for number in range(whole):
                stamp_at = (number + 1) * message_bytes - PAYLOAD_BYTES - 2
                latencies.append((now - int(held[stamp_at : stamp_at + 20])) / 1e9)
            held = held[whole * message_bytes :]
    except TimeoutError:
        pass
    return Outcome(len(latencies), time.perf_counter() - start, latencies)
