"""A publisher and a subscriber of numbered messages in processes of their own: of the SDK, or of nats-py.

Both note times of one clock, so that an account of a stream follows from their two lists.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import struct
import time
from array import array
from collections.abc import Coroutine
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import nats
import nats.errors
from nats.aio.client import Client

from mangrove.client import Connection, Message, NotConnectedError, connect
from mangrove.errors import MangroveError
from mangrove.testbed.mirrors.account import PAUSE_MS
from mangrove.testbed.worker_process import carry_out

SDK, NATS_PY = "mangrove", "nats-py"
TICK_S = 0.002
SIZE_BYTES = 256
LONGEST_S = 600.0
"""No stream lasts longer, whoever forgets to end it."""
RECONNECT_S = 0.05
READY_S = 20.0
CLOSE_S = 5.0
STOP_S = 5.0

SCHEDULER_ACCOUNT = Path("/proc/self/schedstat")

_NUMBER = struct.Struct("<q")


class Channel(Protocol):
    """What both kinds of clients can do."""

    async def publish(self, subject: str, data: bytes) -> None:
        """Send one message."""

    async def subscribe(self, subject: str, numbers: array[int], times: array[int]) -> None:
        """Note what arrives."""

    async def mirrored(self, subjects: list[str]) -> None:
        """Return when the mirrors of these are connected to; at once where there are none."""

    def place(self, subject: str) -> tuple[str, str]:
        """The broker that serves a subject, and its mirror; nothing where nobody tells."""

    async def close(self) -> None:
        """Disconnect."""


def run_worker(pipe: Pipe, kind: str) -> None:
    """Runs in a process: publishes and subscribes as it is told, until it is told to end."""
    import uvloop

    logging.getLogger().setLevel(logging.CRITICAL)  # brokers are lost on purpose
    uvloop.run(_Streams(kind).serve(pipe))


class Sent(NamedTuple):
    """What a publisher notes."""

    times: dict[str, bytes]
    """When each message was sent, by subject."""
    waited_ns: int
    """The longest that it waited for a processor within one pause, which is not the client's doing."""


class _Streams:
    """What is published and awaited over one connection, by subject. It can be opened again and again."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._channel: Channel | None = None
        self._sent: dict[str, array[int]] = {}
        self._arrived: dict[str, tuple[array[int], array[int]]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._publishing = False
        self._waited_ns = 0

    async def serve(self, pipe: Pipe) -> None:
        """Do as told."""
        commands = (
            self.open,
            self.subscribe,
            self.publish,
            self.mirrored,
            self.place,
            self.stop,
            self.arrived,
            self.arrivals,
            self.close,
        )
        try:
            await carry_out(pipe, {each.__name__: each for each in commands} | {"end": self.close})
        finally:
            await self.close()

    @property
    def channel(self) -> Channel:
        """The connection that is open."""
        assert self._channel is not None, "opened before it is used"
        return self._channel

    async def open(self, urls: list[str]) -> str:
        """Connect anew; what does not work, in words."""
        await self.close()
        self._sent, self._arrived = {}, {}
        return await self._said(self._open(urls))

    async def _open(self, urls: list[str]) -> None:
        self._channel = await (_sdk(urls) if self._kind == SDK else _plain(urls))

    async def subscribe(self, subjects: list[str]) -> str:
        """Await these; what does not work, in words."""
        return await self._said(self._subscribe(subjects))

    async def _subscribe(self, subjects: list[str]) -> None:
        for subject in subjects:
            book = self._arrived[subject] = (array("q"), array("q"))
            await self.channel.subscribe(subject, *book)

    async def mirrored(self, subjects: list[str]) -> str:
        """Wait until these have their mirrors; what does not work, in words."""
        return await self._said(self.channel.mirrored(subjects))

    async def _said(self, doing: Coroutine[None, None, None]) -> str:
        """Brokers are away at times: that is told, and does not end the process."""
        try:
            async with asyncio.timeout(READY_S):
                await doing
        except (MangroveError, nats.errors.Error, OSError, TimeoutError) as error:
            return f"{type(error).__name__}: {error}"
        return ""

    async def place(self, subject: str) -> tuple[str, str]:
        """The broker that serves a subject, and its mirror."""
        return self.channel.place(subject)

    async def publish(self, what: tuple[list[str], float]) -> None:
        """Publish on each of these so many a second, until told to stop: none waits for another."""
        subjects, rate_s = what
        self._sent = {subject: array("q") for subject in subjects}
        self._waited_ns = 0
        self._publishing = True
        gc.collect()
        gc.freeze()  # what lives already need not be looked through while time is measured
        self._tasks = [
            asyncio.create_task(self._publish(subject, times, rate_s))
            for subject, times in self._sent.items()
        ]

    async def _publish(self, subject: str, times: array[int], rate_s: float) -> None:
        """On a fixed schedule; what became due in a pause is sent after it, and noted as sent then."""
        padding = bytes(SIZE_BYTES - _NUMBER.size)
        begun = last = time.monotonic()
        waited_ns = _waited_ns()
        while self._publishing and (now := time.monotonic()) < begun + LONGEST_S:
            waited_ns, earlier_ns = _waited_ns(), waited_ns
            if now - last > PAUSE_MS / 1e3:
                self._waited_ns = max(self._waited_ns, waited_ns - earlier_ns)
            last = now
            for number in range(len(times), int((now - begun) * rate_s) + 1):
                times.append(time.monotonic_ns())
                await self.channel.publish(subject, _NUMBER.pack(number) + padding)
            await asyncio.sleep(TICK_S)

    async def stop(self, _: Any) -> Sent:
        """Publish nothing more, once what was begun is published; what was sent."""
        self._publishing = False
        if self._tasks:
            _, stuck = await asyncio.wait(self._tasks, timeout=STOP_S)
            for task in stuck:
                task.cancel()
            self._tasks = []
        return Sent({subject: times.tobytes() for subject, times in self._sent.items()}, self._waited_ns)

    async def arrived(self, _: Any) -> int:
        """How many messages have arrived."""
        return sum(len(numbers) for numbers, _ in self._arrived.values())

    async def arrivals(self, _: Any) -> dict[str, tuple[bytes, bytes]]:
        """Numbers and times of what has arrived, by subject."""
        return {
            subject: (numbers.tobytes(), times.tobytes())
            for subject, (numbers, times) in self._arrived.items()
        }

    async def close(self, _: Any = None) -> None:
        """Disconnect."""
        await self.stop(None)
        channel, self._channel = self._channel, None
        if channel is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_S):
                    await channel.close()


def _waited_ns() -> int:
    """How long this process has been ready to run and was not served, by Linux's account; 0 elsewhere."""
    try:
        return int(SCHEDULER_ACCOUNT.read_bytes().split()[1])
    except (OSError, IndexError, ValueError):
        return 0


class _Sdk:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def publish(self, subject: str, data: bytes) -> None:
        with contextlib.suppress(NotConnectedError):  # what cannot be sent is lost, and counted as that
            await self._connection.publish(subject, data)

    async def subscribe(self, subject: str, numbers: array[int], times: array[int]) -> None:
        async def take(message: Message) -> None:
            numbers.append(_NUMBER.unpack_from(message.data)[0])
            times.append(time.monotonic_ns())

        subscription = await self._connection.subscribe(subject, callback=take)
        await subscription.ready(READY_S)

    async def mirrored(self, subjects: list[str]) -> None:
        for subject in subjects:
            while not self._has_mirror(subject):  # noqa: ASYNC110  nobody tells when it is so
                await asyncio.sleep(0.05)
        await self._connection.mirrored(READY_S)

    def _has_mirror(self, subject: str) -> bool:
        state = self._connection.mirrors.get(subject)
        return state is not None and bool(state.mirrors) and not state.away

    def place(self, subject: str) -> tuple[str, str]:
        record = self._connection.directory.get(subject)
        return ("", "") if record is None or not record.edges else (record.edges[0], record.mirror)

    async def close(self) -> None:
        await self._connection.close()


async def _sdk(urls: list[str]) -> _Sdk:
    return _Sdk(await connect(urls, name="bench mirror"))


class _Plain:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def publish(self, subject: str, data: bytes) -> None:
        with contextlib.suppress(nats.errors.Error):  # what cannot be sent is lost, and counted as that
            await self._client.publish(subject, data)

    async def subscribe(self, subject: str, numbers: array[int], times: array[int]) -> None:
        async def take(message: Any) -> None:
            numbers.append(_NUMBER.unpack_from(message.data)[0])
            times.append(time.monotonic_ns())

        await self._client.subscribe(subject, cb=take)
        await self._client.flush()

    async def mirrored(self, subjects: list[str]) -> None:
        """There are none."""

    def place(self, subject: str) -> tuple[str, str]:
        return "", ""

    async def close(self) -> None:
        await self._client.close()


async def _plain(urls: list[str]) -> _Plain:
    """A client as its manual has it for a cluster: all servers, quick reconnects, silence noticed early."""

    async def quiet(_: Exception) -> None:
        """Brokers are lost on purpose."""

    client = await nats.connect(
        servers=urls,
        error_cb=quiet,
        dont_randomize=True,
        reconnect_time_wait=RECONNECT_S,
        max_reconnect_attempts=-1,
        connect_timeout=1,
        ping_interval=1,
        max_outstanding_pings=2,
    )
    return _Plain(client)
