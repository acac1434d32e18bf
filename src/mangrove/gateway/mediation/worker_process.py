"""A worker as the gateway sees it: started, fed, listened to, and ended; never waited for."""

from __future__ import annotations

import asyncio
import contextlib
import mmap
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from typing import IO, cast

import msgspec

from mangrove.errors import MangroveError
from mangrove.gateway.mediation.exchange import (
    COUNT_BYTES,
    LEAVES,
    LENGTH_BYTES,
    MAX_FRAME_BYTES,
    Given,
    Ready,
    Result,
    WorkerSettings,
    framed,
)
from mangrove.host.process import die_with_parent
from mangrove.model.unreadable import UNREADABLE

WORKER_MODULE = "mangrove.gateway.mediation.worker"
READY_WITHIN_S = 20.0


class WorkerFailedError(MangroveError):
    """A worker did not become ready."""


class WorkerProcess:
    """One process with one transform.

    `results` takes what it answers, in the order in which it was given, unless it cannot be true; `lost` is
    told once when it can answer no more, be it that it ended or that it said what no worker says.
    """

    def __init__(
        self, settings: WorkerSettings, results: Callable[[list[Result]], bool], lost: Callable[[], None]
    ) -> None:
        self._settings = settings
        self._process: asyncio.subprocess.Process | None = None
        self._counter: mmap.mmap | None = None
        self._channel = _Channel(results, lost)
        self._encode = msgspec.msgpack.Encoder().encode

    async def start(self) -> None:
        """Start it, and wait until it can transform; else WorkerFailedError."""
        try:
            await self._launch()
        except OSError as error:
            raise WorkerFailedError(f"no process for it: {error}") from None
        self._channel.write(framed(self._encode(self._settings)))
        try:
            async with asyncio.timeout(READY_WITHIN_S):
                problem = await self._channel.ready
        except TimeoutError:
            problem = f"it was not ready within {READY_WITHIN_S:g} s"
        if problem:
            raise WorkerFailedError(problem)

    async def _launch(self) -> None:
        ours, theirs = socket.socketpair()
        with contextlib.ExitStack() as unless_connected, theirs:
            unless_connected.enter_context(ours)
            ours.setblocking(False)
            with _shared_memory() as count:
                # Written, not only made so long: who writes first where no room is left ends by a signal.
                count.write(bytes(COUNT_BYTES))
                count.flush()
                self._counter = mmap.mmap(count.fileno(), COUNT_BYTES)
                parent = os.getpid()
                # Safe path: what lies in the present directory is no module of ours, nor of a transform.
                self._process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-P", "-m", WORKER_MODULE),
                    *(str(theirs.fileno()), str(count.fileno())),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.DEVNULL,
                    stderr=asyncio.subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(), count.fileno()),
                    start_new_session=True,
                    preexec_fn=lambda: die_with_parent(parent),
                )
            await asyncio.get_running_loop().create_connection(lambda: self._channel, sock=ours)
            unless_connected.pop_all()

    def give(self, messages: list[Given]) -> None:
        """Hand it some messages."""
        self._channel.write(framed(self._encode(messages)))

    @property
    def done(self) -> int:
        """How many messages it is done with, though perhaps it has not answered them all."""
        return self._count & ~LEAVES

    @property
    def leaves(self) -> bool:
        """Whether it ends by itself, between two messages."""
        return bool(self._count & LEAVES)

    @property
    def _count(self) -> int:
        return 0 if self._counter is None else int.from_bytes(self._counter[:COUNT_BYTES], "little")

    async def end(self) -> None:
        """End it, and all that it has started, without ado."""
        self._channel.close()
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        if self._counter is not None:
            self._counter.close()
            self._counter = None


def _shared_memory() -> IO[bytes]:
    """A file that both can map, in memory where that is possible: it needs no room on a disk."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("count", os.MFD_CLOEXEC), "wb")
    return tempfile.TemporaryFile()


class _Channel(asyncio.Protocol):
    """The gateway's end of the socket."""

    def __init__(self, results: Callable[[list[Result]], bool], lost: Callable[[], None]) -> None:
        self._results = results
        self._lost = lost
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self._decode = msgspec.msgpack.Decoder(list[Result]).decode
        self._closed = False
        self.ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """What prevents it from working; empty if nothing does."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass

    def write(self, data: bytes) -> None:
        """What is under way is bounded by who gives it."""
        if self._transport is not None and not self._closed:
            self._transport.write(data)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while not self._closed and len(self._buffer) >= LENGTH_BYTES:
            length = int.from_bytes(self._buffer[:LENGTH_BYTES], "big")
            end = LENGTH_BYTES + length
            if length <= MAX_FRAME_BYTES and len(self._buffer) < end:
                return
            frame = bytes(self._buffer[LENGTH_BYTES:end])
            del self._buffer[:end]
            if length > MAX_FRAME_BYTES or not self._understood(frame):
                self._give_up()

    def _understood(self, frame: bytes) -> bool:
        """Take in a frame; False if no worker writes such a thing."""
        try:
            if not self.ready.done():
                self.ready.set_result(msgspec.msgpack.decode(frame, type=Ready).problem)
                return True
            results = self._decode(frame)
        except UNREADABLE:
            return False
        return self._results(results)

    def connection_lost(self, exc: Exception | None) -> None:
        self._give_up()

    def _give_up(self) -> None:
        if not self.ready.done():
            self.ready.set_result("its process ended before it was ready")
        if not self._closed:
            self.close()
            self._lost()

    def close(self) -> None:
        """Hear nothing more."""
        self._closed = True
        if not self.ready.done():
            self.ready.cancel()
        if self._transport is not None:
            self._transport.close()
