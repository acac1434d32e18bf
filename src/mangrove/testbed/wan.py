"""The WAN emulator: a process that relays TCP connections and treats each link as its shape says.

Run by the launcher as `python -m mangrove.testbed.wan SETTINGS.json`. Shapes are changed while it runs over a
control socket, one JSON document a line: `{"link": "a--b", "shape": {"delay_ms": 80}}`, answered by
`{"ok": true}` or `{"error": "…"}`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections import deque
from functools import partial
from typing import cast

import msgspec

from mangrove.host.daemon import run_daemon
from mangrove.model.address import Address
from mangrove.model.shared_names import WAN_READY
from mangrove.model.unreadable import UNREADABLE
from mangrove.testbed.emulator_control import Answer, answer_requests
from mangrove.testbed.shaping import Shape, Shaper

log = logging.getLogger(__name__)

# How much may queue in front of a link, out of its sender's reach. One without a bandwidth stands for a fast
# path: its queue is ample, so that the emulator never limits the rate. A narrow link queues about one
# bandwidth-delay product, as routers that are not bloated do: under overload messages then wait at the
# sender, which knows what is urgent, and not in here, where everything stands in one line.
FAST_LEAST_QUEUE_BYTES = 4 << 20
NARROW_LEAST_QUEUE_BYTES = 64 << 10
# A narrow link takes its input in small pieces, as packets come: a large one would leave it idle while it is
# under way as a whole.
PIECE_BYTES = 4096
# The kernel's share of that queue. It is small, for it comes on top.
NARROW_RECEIVE_BYTES = 16 << 10
# Segments as on a WAN: those of loopback, 64 KiB, would not fit into such buffers.
WAN_SEGMENT_BYTES = 1460


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """Who connects to `listen` talks to `target`."""

    listen: Address
    target: Address


class WanLink(msgspec.Struct, frozen=True, kw_only=True):
    """One link to emulate, with a way to each gateway of the end that is called."""

    name: str
    ways: tuple[Way, ...]
    shape: Shape


class WanSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the emulator is told when it starts."""

    control: Address
    links: tuple[WanLink, ...]
    seed: int


class ShapeChange(msgspec.Struct, frozen=True, kw_only=True):
    """A request on the control socket."""

    link: str
    shape: Shape


class Pipe(asyncio.Protocol):
    """One direction: what this socket receives is written to the other one when its time has come."""

    def __init__(self, link: EmulatedLink, other: Pipe | None, seed: int, target: Address) -> None:
        self._link = link
        self._target = target
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
            self._link.connect(self, self._target)
        else:
            self._other._other = self
            self._other.release()

    def data_received(self, data: bytes) -> None:
        now = asyncio.get_running_loop().time()
        step = PIECE_BYTES if self._shaper.shape.bandwidth_mbps else len(data)
        for start in range(0, len(data), step):
            piece = data[start : start + step]
            self._waiting.append((self._shaper.arrival(now, len(piece)), piece))
        self._waiting_bytes += len(data)
        held = self._in_flight_bytes + self._queue_bytes
        if self._reading and self._waiting_bytes > held and self.transport is not None:
            self.transport.pause_reading()
            self._reading = False
        self.release()

    @property
    def _in_flight_bytes(self) -> float:
        """What is on the line of a link in full use."""
        shape = self._shaper.shape
        return (shape.bandwidth_mbps or 1000.0) * 1e6 / 8 * (shape.delay_ms + shape.jitter_ms) / 1000

    @property
    def _queue_bytes(self) -> float:
        """What the routers in front of it hold; beyond that the sender must wait."""
        narrow = self._shaper.shape.bandwidth_mbps is not None
        least = NARROW_LEAST_QUEUE_BYTES if narrow else FAST_LEAST_QUEUE_BYTES
        return max(least, 2 * self._in_flight_bytes)  # a round trip's worth

    def _bound_receive_buffer(self) -> None:
        """Keep the kernel from being the deep queue instead: it would take megabytes in our place."""
        sock = self.transport.get_extra_info("socket") if self.transport is not None else None
        if sock is not None and self._shaper.shape.bandwidth_mbps:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, NARROW_RECEIVE_BYTES)

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
        due: list[bytes] = []
        while self._waiting and self._waiting[0][0] <= now:
            due.append(self._waiting.popleft()[1])
        if due:  # in one go: after a black hole thousands of small chunks are due at once
            data = b"".join(due)
            self._waiting_bytes -= len(data)
            other.transport.write(data)
        if self._waiting:
            self._timer = loop.call_at(self._waiting[0][0], self.release)
        elif self._ended:
            other.transport.close()
            self._link.closing.discard(self)
        enough = self._in_flight_bytes + self._queue_bytes / 2
        if not self._reading and self._waiting_bytes < enough and self.transport is not None:
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


def wan_socket(host: str) -> socket.socket:
    """A socket that asks its peer for segments as they travel on a WAN."""
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, WAN_SEGMENT_BYTES)
    return made


class EmulatedLink:
    """One link: its listener, its connections and its present shape."""

    def __init__(self, settings: WanLink, seed: int) -> None:
        self.settings = settings
        self.shape = settings.shape
        self.pipes: set[Pipe] = set()
        self.closing: set[Pipe] = set()
        self._seed = seed
        self._tasks: set[asyncio.Task[None]] = set()

    def accept(self, target: Address) -> Pipe:
        """A protocol for an incoming connection."""
        self._seed += 2
        return Pipe(self, None, self._seed, target)

    def connect(self, near: Pipe, target: Address) -> None:
        """Connect an incoming connection onward."""
        task = asyncio.create_task(self._connect(near, target))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, near: Pipe, target: Address) -> None:
        loop = asyncio.get_running_loop()
        onward = wan_socket(target[0])
        onward.setblocking(False)
        try:
            await loop.sock_connect(onward, target)
            await loop.create_connection(lambda: Pipe(self, near, self._seed + 1, target), sock=onward)
        except OSError as error:
            log.info("%s: %s", self.settings.name, error)
            onward.close()
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
                for way in link.settings.ways:
                    listener = wan_socket(way.listen[0])
                    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    listener.bind(way.listen)
                    server = await loop.create_server(partial(link.accept, way.target), sock=listener)
                    stack.callback(server.close)
            control = await asyncio.start_server(
                partial(answer_requests, self._answer), *self._settings.control, reuse_address=True
            )
            stack.callback(control.close)
            log.info("%s: %d links, seed %d", WAN_READY, len(self._links), self._settings.seed)
            await asyncio.Event().wait()

    def _answer(self, line: bytes) -> Answer:
        try:
            change = msgspec.json.decode(line, type=ShapeChange)
        except UNREADABLE as error:
            return Answer(error=f"not a request: {error}")
        link = self._links.get(change.link)
        if link is None:
            return Answer(error=f"no emulated link {change.link!r}; there are: {', '.join(self._links)}")
        link.reshape(change.shape)
        return Answer(ok=True)


async def _serve(settings: WanSettings) -> None:
    await Wan(settings).run()


def main() -> None:
    """Run the emulator until it is told to stop."""
    run_daemon(WanSettings, _serve)


if __name__ == "__main__":
    main()
