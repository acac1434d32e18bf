"""A publisher and a subscriber of numbered messages in processes of their own: of the SDK, or of nats-py.

Both note times of one clock, so that an account of a stream follows from their two lists.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import struct
import time
from array import array
from multiprocessing.connection import Connection as Pipe
from typing import Any, Protocol

import nats
import nats.errors
from nats.aio.client import Client

from mangrove.client import Connection, Message, NotConnectedError, connect
from mangrove.testbed.worker_process import carry_out

SDK, NATS_PY = "mangrove", "nats-py"
TICK_S = 0.002
SIZE_BYTES = 256
LONGEST_S = 600.0
"""No stream lasts longer, whoever forgets to end it."""
RECONNECT_S = 0.05
READY_S = 20.0

_NUMBER = struct.Struct("<q")


class Channel(Protocol):
    """What both kinds of clients can do."""

    async def publish(self, subject: str, data: bytes) -> None:
        """Send one message."""

    async def subscribe(self, subject: str, numbers: array[int], times: array[int]) -> None:
        """Note what arrives."""

    async def close(self) -> None:
        """Disconnect."""


def run_worker(pipe: Pipe, kind: str, urls: list[str]) -> None:
    """Runs in a process: publishes and subscribes as it is told, until it is told to end."""
    import uvloop

    logging.getLogger().setLevel(logging.CRITICAL)  # brokers are lost on purpose
    uvloop.run(_serve(pipe, kind, urls))


async def _serve(pipe: Pipe, kind: str, urls: list[str]) -> None:
    channel: Channel = await (_sdk(urls) if kind == SDK else _plain(urls))
    streams = _Streams(channel)
    try:
        await carry_out(
            pipe,
            {
                "subscribe": streams.subscribe,
                "publish": streams.publish,
                "stop": streams.stop,
                "arrivals": streams.arrivals,
                "end": _nothing,
            },
        )
    finally:
        await streams.stop(None)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(READY_S):
                await channel.close()


async def _nothing(_: Any) -> None:
    """Nothing is left to tell."""


class _Streams:
    """What is published and awaited over one connection, by subject."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._sent: dict[str, array[int]] = {}
        self._arrived: dict[str, tuple[array[int], array[int]]] = {}
        self._task: asyncio.Task[None] | None = None

    async def subscribe(self, subjects: list[str]) -> None:
        """Await these."""
        for subject in subjects:
            book = self._arrived[subject] = (array("q"), array("q"))
            await self._channel.subscribe(subject, *book)

    async def publish(self, what: tuple[list[str], float]) -> None:
        """Publish on each of these so many a second, until told to stop."""
        subjects, rate_s = what
        self._sent = {subject: array("q") for subject in subjects}
        self._task = asyncio.create_task(self._publish(rate_s))

    async def _publish(self, rate_s: float) -> None:
        """On a fixed schedule; what became due in a pause is sent after it, and noted as sent then."""
        padding = bytes(SIZE_BYTES - _NUMBER.size)
        begun = time.monotonic()
        sent = 0
        while (now := time.monotonic()) < begun + LONGEST_S:
            due = int((now - begun) * rate_s) + 1
            for number in range(sent, due):
                data = _NUMBER.pack(number) + padding
                for subject, times in self._sent.items():
                    times.append(time.monotonic_ns())
                    await self._channel.publish(subject, data)
            sent = due
            await asyncio.sleep(TICK_S)

    async def stop(self, _: Any) -> dict[str, bytes]:
        """Publish nothing more; when each message was sent, by subject."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None
        return {subject: times.tobytes() for subject, times in self._sent.items()}

    async def arrivals(self, _: Any) -> dict[str, tuple[bytes, bytes]]:
        """Numbers and times of what has arrived, by subject."""
        return {
            subject: (numbers.tobytes(), times.tobytes())
            for subject, (numbers, times) in self._arrived.items()
        }


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

    async def close(self) -> None:
        await self._connection.close()


async def _sdk(urls: list[str]) -> _Sdk:
    return _Sdk(await connect(urls[0], name="bench mirror"))


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
