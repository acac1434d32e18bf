"""Connections over a broker's line: they take turns on it, and each has a little waiting at most."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections import deque
from collections.abc import Callable
from typing import cast

from mangrove.model.address import Address
from mangrove.testbed.broker_lines.line import Line
from mangrove.testbed.wan import NARROW_RECEIVE_BYTES, wan_socket

log = logging.getLogger(__name__)

QUEUE_BYTES = 1 << 20
"""What one connection may have waiting in here, as in a send buffer; beyond that its sender waits."""
TURN_BYTES = 4096
"""What one connection passes in its turn: who has little to say waits for one such piece of each other."""
FAST_WRITE_BYTES = 4 << 20
NARROW_WRITE_BYTES = 32 << 10
"""What a reader that is slow itself may leave in our socket."""


class SharedLine:
    """One direction of a broker's line, and the connections that wait for their turn on it."""

    def __init__(self, bandwidth_mbps: float | None) -> None:
        self.line = Line(bandwidth_mbps)
        self.pipes: set[Pipe] = set()
        self._turns: deque[Pipe] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def change(self, bandwidth_mbps: float | None) -> None:
        """Another bandwidth for all connections, at once."""
        self.line.change(bandwidth_mbps, asyncio.get_running_loop().time())
        for pipe in self.pipes:
            pipe.bound_buffers()
        self.serve()

    def end(self) -> None:
        """End all connections at once."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._turns.clear()
        for pipe in tuple(self.pipes):
            pipe.abort()

    def wants_turn(self, pipe: Pipe) -> None:
        """A connection has something to pass."""
        if not pipe.in_line:
            pipe.in_line = True
            self._turns.append(pipe)
        if self._timer is None:
            self.serve()

    def serve(self) -> None:
        """Let connections pass a piece each, in turn, for as long as there is credit."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        while self._turns:
            wait_s = self.line.wait_s(now)
            if wait_s > 0:
                self._timer = loop.call_later(wait_s, self.serve)
                return
            pipe = self._turns.popleft()
            pipe.in_line = False
            self.line.passed(pipe.pass_piece(), now)
            if pipe.may_pass and not pipe.in_line:
                pipe.in_line = True
                self._turns.append(pipe)


class Pipe(asyncio.Protocol):
    """One direction of a connection: what this socket receives is written to the other in its turn."""

    def __init__(self, connection: RelayedConnection, line: SharedLine) -> None:
        self._connection = connection
        self._line = line
        self._waiting: deque[bytes] = deque()
        self.waiting_bytes = 0
        self._reading = True
        self._ended = False
        self._writable = True
        self.in_line = False
        self.other: Pipe | None = None
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._line.pipes.add(self)
        self.bound_buffers()
        self._connection.made(self)

    def bound_buffers(self) -> None:
        """Keep the kernel from being the deep queue in our place while the line is narrow."""
        if self.transport is None:
            return
        narrow = self._line.line.limited
        sock = self.transport.get_extra_info("socket")
        if sock is not None and narrow:
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, NARROW_RECEIVE_BYTES)
        if self.other is not None and self.other.transport is not None:
            high = NARROW_WRITE_BYTES if narrow else FAST_WRITE_BYTES
            self.other.transport.set_write_buffer_limits(high=high)

    @property
    def may_pass(self) -> bool:
        """Whether there is something to pass, and somebody who takes it."""
        return self.waiting_bytes > 0 and self.other is not None and self.other._writable

    def data_received(self, data: bytes) -> None:
        other = self.other
        if not self._line.line.limited and not self._waiting and other is not None and other._writable:
            self._line.line.passed_bytes += len(data)
            other.write(data)
            return
        self._waiting.append(data)
        self.waiting_bytes += len(data)
        if self._reading and self.waiting_bytes > QUEUE_BYTES and self.transport is not None:
            self._reading = False
            self.transport.pause_reading()
        if self.may_pass:
            self._line.wants_turn(self)

    def pass_piece(self) -> int:
        """Write one piece to the other side; how many bytes it was."""
        other = self.other
        if other is None or not other._writable or not self._waiting:
            return 0
        piece = self._next_piece()
        self.waiting_bytes -= len(piece)
        other.write(piece)
        if not self._reading and self.waiting_bytes < QUEUE_BYTES // 2 and self.transport is not None:
            self._reading = True
            self.transport.resume_reading()
        self._close_if_done()
        return len(piece)

    def _next_piece(self) -> bytes:
        """As much as one turn allows, however small the parts were in which it came."""
        parts, room = [], TURN_BYTES
        while self._waiting and room:
            part = self._waiting.popleft()
            if len(part) > room:
                self._waiting.appendleft(part[room:])
                part = part[:room]
            parts.append(part)
            room -= len(part)
        return b"".join(parts)

    def write(self, data: bytes) -> None:
        """What comes from the other side."""
        if self.transport is not None:
            self.transport.write(data)

    def pause_writing(self) -> None:
        """Who reads here is slow: the other direction waits."""
        self._writable = False

    def resume_writing(self) -> None:
        """It has caught up."""
        self._writable = True
        if self.other is not None and self.other.may_pass:
            self.other._line.wants_turn(self.other)

    def connection_lost(self, exc: Exception | None) -> None:
        """The other side learns of it when everything before it has passed."""
        self.transport = None
        self._ended = True
        self._writable = True
        self._line.pipes.discard(self)
        if self.other is not None:
            self.other.drop()
        self._close_if_done()

    def drop(self) -> None:
        """Forget what waits: there is nobody to take it."""
        self._waiting.clear()
        self.waiting_bytes = 0

    def _close_if_done(self) -> None:
        if self._ended and not self._waiting and self.other is not None and self.other.transport is not None:
            self.other.transport.close()

    def abort(self) -> None:
        """End the connection at once."""
        if self.transport is not None:
            self.transport.abort()


class RelayedConnection:
    """A connection through a door: both its pipes, and the connecting onward."""

    def __init__(
        self,
        target: Address,
        from_caller: SharedLine,
        from_target: SharedLine,
        keep: Callable[[asyncio.Task[None]], None],
    ) -> None:
        """`keep` looks after the task that connects to `target`."""
        self._target = target
        self._keep = keep
        self._near = Pipe(self, from_caller)
        self._far = Pipe(self, from_target)

    def accept(self) -> Pipe:
        """The protocol of the side that called."""
        return self._near

    def made(self, pipe: Pipe) -> None:
        """One side stands: the first has the other one connected, the second joins them."""
        if pipe is self._near:
            self._keep(asyncio.create_task(self._connect()))
            return
        self._near.other, self._far.other = self._far, self._near
        for each in (self._near, self._far):
            each.bound_buffers()
            if each.may_pass:
                each._line.wants_turn(each)
        if self._near.transport is None:
            self._far.abort()

    async def _connect(self) -> None:
        onward = wan_socket(self._target[0])
        onward.setblocking(False)
        loop = asyncio.get_running_loop()
        try:
            await loop.sock_connect(onward, self._target)
            await loop.create_connection(lambda: self._far, sock=onward)
        except OSError as error:
            log.info("%s: %s", self._target, error)
            onward.close()
            self._near.abort()
