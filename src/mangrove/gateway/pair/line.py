"""The line between the two gateways of a domain: one TCP connection, written to at once.

The second gateway calls the first. What one says is handed to the kernel before anything that follows from it
is done, so that it is heard even if this process dies in the next instant: no event loop's buffer is between.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from typing import Protocol

from mangrove.model.address import Address
from mangrove.model.gateway_settings import PairSettings
from mangrove.overlay.pair.messages import (
    Ending,
    PairGoodbye,
    PairHello,
    RecordKind,
    RecordReader,
    read_word,
    word_record,
)
from mangrove.overlay.protocol.frames import FrameError

log = logging.getLogger(__name__)

CALL_AGAIN_S = 0.05
GREETING_TIMEOUT_S = 1.0
READ_BYTES = 1 << 18
SEND_BUFFER_BYTES = 4 << 20
MAX_BACKLOG_BYTES = 8 << 20
"""What waits for one that does not read; with more, the line is given up."""


class LineOwner(Protocol):
    """Who is told what comes over the line."""

    def line_up(self) -> None:
        """The other gateway has greeted."""

    def line_down(self, ending: Ending | None) -> None:
        """It said goodbye, or died."""

    def said(self, kind: RecordKind, body: bytes) -> None:
        """It said something; FrameError closes the line."""


class PairLine:
    """Keeps the line up. Use `run` as a task; `say` whenever the line is up."""

    def __init__(self, settings: PairSettings, hello: PairHello, owner: LineOwner) -> None:
        self._settings = settings
        self._hello = hello
        self._owner = owner
        self._connection: _Connection | None = None
        self._callers: set[asyncio.Task[None]] = set()
        self._problem = ""
        self.refused = 0

    async def run(self) -> None:
        """Listen for the other gateway, or call it, until cancelled."""
        try:
            if self._settings.number == 1:
                await self._listen()
            else:
                await self._call()
        finally:
            for caller in self._callers:
                caller.cancel()
            self.close(Ending.STOPS)

    def say(self, record: bytes) -> None:
        """Hand something to the kernel, in order; nobody hears it while the line is down."""
        if self._connection is not None:
            self._connection.send(record)

    def read(self) -> None:
        """Take in what has come so far, without waiting for the event loop's turn."""
        if self._connection is not None:
            self._connection.readable()

    def close(self, ending: Ending) -> None:
        """Say why, and close; the owner is told nothing, for it knows."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.send(word_record(PairGoodbye(ending=ending)))
            connection.close()

    # -- inside -------------------------------------------------------------------------------------------

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        address = self._settings.line
        with _socket(address) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(8)
            while True:
                accepted, _ = await loop.sock_accept(listener)
                accepted.setblocking(False)
                if len(self._callers) >= 8:
                    accepted.close()
                    self.refused += 1
                    continue
                task = loop.create_task(self._serve(accepted), name="the other gateway")
                self._callers.add(task)
                task.add_done_callback(self._callers.discard)

    async def _call(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            made = _socket(self._settings.line)
            try:
                async with asyncio.timeout(GREETING_TIMEOUT_S):
                    await loop.sock_connect(made, self._settings.line)
            except (OSError, TimeoutError) as error:
                made.close()
                self._note(f"cannot reach the other gateway at {self._settings.line}: {error}")
            except asyncio.CancelledError:
                made.close()
                raise
            else:
                await self._serve(made)
            await asyncio.sleep(CALL_AGAIN_S)

    async def _serve(self, sock: socket.socket) -> None:
        """Greet, and stay until the line ends."""
        connection = _Connection(self, sock, self._owner)
        try:
            connection.open(word_record(self._hello))
            try:
                async with asyncio.timeout(GREETING_TIMEOUT_S):
                    await connection.greeted.wait()
            except TimeoutError:
                self._note("the other gateway does not greet")
                return
            await connection.closed.wait()
        finally:
            connection.close()

    def greet(self, connection: _Connection, hello: PairHello) -> None:
        """Somebody greets; FrameError if that is not the other gateway of this domain."""
        own = self._hello
        if (hello.federation, hello.topology, hello.domain) != (own.federation, own.topology, own.domain):
            raise FrameError(f"{hello.domain!r} of {hello.federation!r} ({hello.topology}) called")
        if hello.number == own.number:
            raise FrameError(f"another gateway says that it is number {own.number} of {own.domain!r}")
        earlier, self._connection = self._connection, connection
        if earlier is not None:
            earlier.close()
            self._owner.line_down(None)
        self._problem = ""
        log.info("the other gateway of %s is there", own.domain)
        self._owner.line_up()

    def ended(self, connection: _Connection, ending: Ending | None, reason: str) -> None:
        """A connection is at its end."""
        if self._connection is connection:
            self._connection = None
            log.warning("the line to the other gateway ended: %s", reason)
            self._owner.line_down(ending)
        else:
            self.refused += 1
            self._note(f"refused a connection to the line between gateways: {reason}")

    def _note(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            log.info("%s", problem)


class _Connection:
    """One socket of the line."""

    def __init__(self, line: PairLine, sock: socket.socket, owner: LineOwner) -> None:
        self._line = line
        self._socket = sock
        self._owner = owner
        self._reader = RecordReader()
        self._backlog = bytearray()
        self._open = False
        self._ending: Ending | None = None
        self.greeted = asyncio.Event()
        self.closed = asyncio.Event()

    def open(self, hello: bytes) -> None:
        """Begin to listen and to speak."""
        self._open = True
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        asyncio.get_running_loop().add_reader(self._socket, self.readable)
        self.send(hello)

    def send(self, record: bytes) -> None:
        """Write as much as the kernel takes; the rest waits."""
        if not self._open:
            return
        if not self._backlog:
            try:
                sent = self._socket.send(record)
            except BlockingIOError:
                sent = 0
            except OSError:
                return  # what the other one said last is still to be read; the end comes after it
            if sent == len(record):
                return
            record = record[sent:]
            asyncio.get_running_loop().add_writer(self._socket, self._writable)
        self._backlog += record
        if len(self._backlog) > MAX_BACKLOG_BYTES:
            self._end("it reads nothing")

    def _writable(self) -> None:
        try:
            sent = self._socket.send(self._backlog)
        except BlockingIOError:
            return
        except OSError:
            self._backlog.clear()
            asyncio.get_running_loop().remove_writer(self._socket)
            return
        del self._backlog[:sent]
        if not self._backlog:
            asyncio.get_running_loop().remove_writer(self._socket)

    def readable(self) -> None:
        """Take in what has come."""
        while self._open:
            try:
                data = self._socket.recv(READ_BYTES)
            except BlockingIOError:
                return
            except OSError as error:
                self._end(str(error))
                return
            if not data:
                self._end(self._ending or "the other process has ended")
                return
            try:
                for kind, body in self._reader.feed(data):
                    self._said(kind, body)
            except FrameError as error:
                self._end(error.message)

    def _said(self, kind: RecordKind, body: bytes) -> None:
        if not self._open:
            return
        if not self.greeted.is_set():
            hello = read_word(kind, body) if kind is RecordKind.HELLO else None
            if not isinstance(hello, PairHello):
                raise FrameError("it did not greet first")
            self._line.greet(self, hello)
            self.greeted.set()
        elif kind is RecordKind.GOODBYE:
            goodbye = read_word(kind, body)
            assert isinstance(goodbye, PairGoodbye)
            self._ending = goodbye.ending
            self._end(goodbye.ending)
        else:
            self._owner.said(kind, body)

    def _end(self, reason: str) -> None:
        if self._open:
            self.close()
            self._line.ended(self, self._ending, reason)

    def close(self) -> None:
        """Let go of the socket."""
        if self._open:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._socket)
            loop.remove_writer(self._socket)
        self._open = False
        with contextlib.suppress(OSError):
            self._socket.close()
        self.closed.set()
        self.greeted.set()


def _socket(address: Address) -> socket.socket:
    made = socket.socket(socket.AF_INET6 if ":" in address.host else socket.AF_INET, socket.SOCK_STREAM)
    made.setblocking(False)
    return made
