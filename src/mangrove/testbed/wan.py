"""The WAN emulator: a process that relays TCP connections and treats each link as its shape says.

Run by the launcher as `python -m mangrove.testbed.wan SETTINGS.json`. Shapes are changed while it runs over a
control socket, one JSON document a line: `{"link": "a--b", "shape": {"delay_ms": 80}}`, answered by
`{"ok": true}` or `{"error": "…"}`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import sys
from collections import deque
from pathlib import Path
from typing import cast

import msgspec
import uvloop

from mangrove.testbed.shaping import Shape, Shaper

log = logging.getLogger(__name__)

READY_TEXT = "wan ready"
# What a link holds out of its sender's reach. One without a bandwidth stands for a fast path: its buffer is
# ample, so that the emulator is never what limits the rate. A narrow link holds about one bandwidth-delay
# product, as routers that are not bloated do: under overload the queue then builds up at the sender, which
# knows what is urgent, and not in here, where everything waits in one line.
FAST_LEAST_BUFFER_BYTES = 4 << 20
NARROW_LEAST_BUFFER_BYTES = 64 << 10


class WanLink(msgspec.Struct, frozen=True, kw_only=True):
    """One link to emulate: who connects to `listen` talks to `target`."""

    name: str
    listen: tuple[str, int]
    target: tuple[str, int]
    shape: Shape


class WanSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the emulator is told when it starts."""

    control: tuple[str, int]
    links: tuple[WanLink, ...]
    seed: int


class ShapeChange(msgspec.Struct, frozen=True, kw_only=True):
    """A request on the control socket."""

    link: str
    shape: Shape


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to a request."""

    ok: bool = False
    error: str = ""


class Pipe(asyncio.Protocol):
    """One direction: what this socket receives is written to the other one when its time has come."""

    def __init__(self, link: EmulatedLink, other: Pipe | None, seed: int) -> None:
        self._link = link
        self._other = other
        self._shaper = Shaper(link.shape, seed)
        self._waiting: deque[tuple[float, bytes]] = deque()
        self._waiting_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._reading = True
        self._ended = False
        self._writable = True
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._bound_receive_buffer()
        self._link.pipes.add(self)
        if self._other is None:
            self._link.connect(self)
        else:
            self._other._other = self
            self._other.release()

    def data_received(self, data: bytes) -> None:
        now = asyncio.get_running_loop().time()
        self._waiting.append((self._shaper.arrival(now, len(data)), data))
        self._waiting_bytes += len(data)
        if self._reading and self._waiting_bytes > self._buffer_bytes and self.transport is not None:
            self.transport.pause_reading()
            self._reading = False
        self.release()

    @property
    def _buffer_bytes(self) -> float:
        """What a real path holds in flight and in routers; beyond it the sender must wait."""
        shape = self._shaper.shape
        in_flight = (shape.bandwidth_mbps or 1000.0) * 1e6 / 8 * (shape.delay_ms + shape.jitter_ms) / 1000
        least = NARROW_LEAST_BUFFER_BYTES if shape.bandwidth_mbps else FAST_LEAST_BUFFER_BYTES
        return max(least, 2 * in_flight)

    def _bound_receive_buffer(self) -> None:
        """Keep the kernel from being the deep queue instead: it would take megabytes in our place."""
        sock = self.transport.get_extra_info("socket") if self.transport is not None else None
        if sock is not None and self._shaper.shape.bandwidth_mbps:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, NARROW_LEAST_BUFFER_BYTES)

    def release(self) -> None:
        """Write what is due, and come back when the next chunk is."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        other = self._other
        if other is None or self._shaper.shape.black_hole or not other._writable:
            return
        if other.transport is None:
            self._waiting.clear()
            self._link.closing.discard(self)
            return
        loop = asyncio.get_running_loop()
        now = loop.time()
        while self._waiting and self._waiting[0][0] <= now:
            _, data = self._waiting.popleft()
            self._waiting_bytes -= len(data)
            other.transport.write(data)
            if not other._writable:
                break
        if self._waiting:
            self._timer = loop.call_at(self._waiting[0][0], self.release)
        elif self._ended:
            other.transport.close()
            self._link.closing.discard(self)
        if not self._reading and self._waiting_bytes < self._buffer_bytes / 2 and self.transport is not None:
            self._reading = True
            self.transport.resume_reading()

    def reshape(self, shape: Shape) -> None:
        """The link changed. What is under way arrives as it would have; a lifted black hole lets it out."""
        self._shaper.shape = shape
        self._bound_receive_buffer()
        self.release()

    def pause_writing(self) -> None:
        """This socket is full: the other direction waits."""
        self._writable = False

    def resume_writing(self) -> None:
        """This socket drained."""
        self._writable = True
        if self._other is not None:
            self._other.release()

    def connection_lost(self, exc: Exception | None) -> None:
        """The other side learns of it when everything before it has arrived."""
        self.transport = None
        self._ended = True
        self._writable = True
        self._link.pipes.discard(self)
        self._link.closing.add(self)
        self.release()

    def close(self) -> None:
        """Drop the connection at once."""
        if self._timer is not None:
            self._timer.cancel()
        if self.transport is not None:
            self.transport.abort()


class EmulatedLink:
    """One link: its listener, its connections and its present shape."""

    def __init__(self, settings: WanLink, seed: int) -> None:
        self.settings = settings
        self.shape = settings.shape
        self.pipes: set[Pipe] = set()
        self.closing: set[Pipe] = set()
        self._seed = seed
        self._tasks: set[asyncio.Task[None]] = set()

    def accept(self) -> Pipe:
        """A protocol for an incoming connection."""
        self._seed += 2
        return Pipe(self, None, self._seed)

    def connect(self, near: Pipe) -> None:
        """Connect an incoming connection onward."""
        task = asyncio.create_task(self._connect(near))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, near: Pipe) -> None:
        host, port = self.settings.target
        try:
            await asyncio.get_running_loop().create_connection(
                lambda: Pipe(self, near, self._seed + 1), host, port
            )
        except OSError as error:
            log.info("%s: %s", self.settings.name, error)
            near.close()

    def reshape(self, shape: Shape) -> None:
        """Apply a new shape to all connections, present and future."""
        self.shape = shape
        for pipe in [*self.pipes, *self.closing]:
            pipe.reshape(shape)
        log.info("%s is now %s", self.settings.name, shape)


class Wan:
    """All emulated links."""

    def __init__(self, settings: WanSettings) -> None:
        self._settings = settings
        self._links = {
            link.name: EmulatedLink(link, settings.seed + 1000 * number)
            for number, link in enumerate(settings.links)
        }

    async def run(self) -> None:
        """Relay until cancelled."""
        loop = asyncio.get_running_loop()
        async with contextlib.AsyncExitStack() as stack:
            for link in self._links.values():
                host, port = link.settings.listen
                server = await loop.create_server(link.accept, host, port, reuse_address=True)
                stack.callback(server.close)
            control = await asyncio.start_server(self._control, *self._settings.control, reuse_address=True)
            stack.callback(control.close)
            log.info("%s: %d links, seed %d", READY_TEXT, len(self._links), self._settings.seed)
            await asyncio.Event().wait()

    async def _control(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                writer.write(msgspec.json.encode(self._answer(line)) + b"\n")
                await writer.drain()
        except (ConnectionError, ValueError) as error:
            log.info("control connection: %s", error)
        finally:
            writer.close()

    def _answer(self, line: bytes) -> Answer:
        try:
            change = msgspec.json.decode(line, type=ShapeChange)
        except msgspec.DecodeError as error:
            return Answer(error=f"not a request: {error}")
        link = self._links.get(change.link)
        if link is None:
            return Answer(error=f"no emulated link {change.link!r}; there are: {', '.join(self._links)}")
        link.reshape(change.shape)
        return Answer(ok=True)


async def _serve(settings: WanSettings) -> None:
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await Wan(settings).run()


def main() -> None:
    """Run the emulator until it is told to stop."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    uvloop.run(_serve(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=WanSettings)))


if __name__ == "__main__":
    main()
