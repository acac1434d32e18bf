"""One socket of the line between the two gateways of a domain."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING

from mangrove.gateway.trust.proven_stream import Proof, ProvenStream
from mangrove.overlay.pair.messages import (
    Ending,
    PairGoodbye,
    PairHello,
    RecordKind,
    RecordReader,
    read_word,
    record,
    word_record,
)
from mangrove.overlay.protocol.frames import FrameError

if TYPE_CHECKING:
    from mangrove.gateway.pair.line import LineOwner, PairLine

READ_BYTES = 1 << 18
SEND_BUFFER_BYTES = 4 << 20
MAX_BACKLOG_BYTES = 8 << 20
"""What waits for one that does not read; with more, the line is given up."""
MAX_GREETING_BYTES = 4096
LAST = record(RecordKind.LAST, b"")


class LineConnection:
    """Owns its socket. What is sent is in the kernel's hands when `send` returns, unless that is full."""

    def __init__(
        self,
        line: PairLine,
        sock: socket.socket,
        owner: LineOwner,
        stream: ProvenStream | None,
        *,
        calls: bool,
    ) -> None:
        self._line = line
        self._socket = sock
        self._owner = owner
        self._stream = stream
        self.calls = calls
        self._reader = RecordReader()
        self._backlog = bytearray()
        self._open = False
        self._ending: Ending | None = None
        self._hello = b""
        self._predecessor: LineConnection | None = None
        """Whose last word has to come before one of this connection is read."""
        self._early: list[tuple[RecordKind, bytes]] = []
        self._drains = False
        self._successor: LineConnection | None = None
        self._ended_by_other = False
        """Whether the other one has said its last word here."""
        self.greeted = asyncio.Event()
        self.closed = asyncio.Event()

    @property
    def proof(self) -> Proof | None:
        """Who the other one is; None before that is known, and where there are no keys."""
        return None if self._stream is None else self._stream.proof

    def open(self, hello: PairHello) -> None:
        """Begin to listen and to speak. With keys, who called greets first and the other one answers."""
        self._open = True
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        asyncio.get_running_loop().add_reader(self._socket, self.readable)
        if self._stream is None:
            self.send(word_record(hello))
        elif self.calls:
            self._hello = word_record(hello)
            self._put(self._stream.begin())

    def send(self, said: bytes) -> None:
        """Say something; before the other one has proven who it is, nothing is said."""
        if self._stream is None:
            self._put(said)
        elif self._stream.proof is not None and self._open:
            self._put(self._stream.seal([said]))

    def _put(self, data: bytes) -> None:
        """Write as much as the kernel takes; the rest waits."""
        if not self._open or not data:
            return
        if not self._backlog:
            try:
                sent = self._socket.send(data)
            except BlockingIOError:
                sent = 0
            except OSError:
                return  # what the other one said last is still to be read; the end comes after it
            if sent == len(data):
                return
            data = data[sent:]
            asyncio.get_running_loop().add_writer(self._socket, self._writable)
        self._backlog += data
        if len(self._backlog) > MAX_BACKLOG_BYTES:
            self.end(FrameError("it reads nothing"))

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
            if self._drains:
                self.close()

    # -- reading ------------------------------------------------------------------------------------------

    def read(self) -> None:
        """Take in what has come so far, in order: first of the connection that this one renews."""
        if self._predecessor is not None:
            self._predecessor.readable()
        if self._predecessor is None:
            self.readable()

    def readable(self) -> None:
        """Take in what has come."""
        while self._open and self._predecessor is None:
            try:
                data = self._socket.recv(READ_BYTES)
            except BlockingIOError:
                return
            except OSError as error:
                self.end(FrameError(str(error)))
                return
            if not data:
                self.end(FrameError(self._ending or "the other process has ended"))
                return
            try:
                self._take(data)
            except FrameError as error:
                self.end(error)

    def _take(self, data: bytes) -> None:
        if self._stream is not None:
            data = self._opened(self._stream, data)
        for kind, body in self._reader.feed(data):
            self._said(kind, body)
        if not self.greeted.is_set() and self._reader.held_bytes > MAX_GREETING_BYTES:
            raise FrameError(f"its first record has more than {MAX_GREETING_BYTES} bytes")

    def _opened(self, stream: ProvenStream, data: bytes) -> bytes:
        strange = stream.proof is None
        try:
            plain = stream.receive(data)
        finally:
            self._put(stream.outgoing())
        if strange and stream.proof is not None:
            self._line.proven(self)
            if self._hello:
                self.send(self._hello)
        return plain

    def _said(self, kind: RecordKind, body: bytes) -> None:
        if not self._open:
            return
        if self._predecessor is not None:
            self._early.append((kind, body))
        elif not self.greeted.is_set():
            hello = read_word(kind, body) if kind is RecordKind.HELLO else None
            if not isinstance(hello, PairHello):
                raise FrameError("it did not greet first")
            self._line.greet(self, hello)
            self.greeted.set()
        elif kind is RecordKind.GOODBYE:
            goodbye = read_word(kind, body)
            assert isinstance(goodbye, PairGoodbye)
            self._ending = goodbye.ending
            self.end(FrameError(goodbye.ending))
        elif kind is RecordKind.LAST:
            self._ended_by_other = True
            if self._successor is not None:  # else its greeting is still under way
                self._make_way(self._successor)
        else:
            self._owner.said(kind, body)

    # -- renewal ------------------------------------------------------------------------------------------

    def give_way(self, successor: LineConnection) -> None:
        """Say the last word; the other one's last word here comes before all that it says there."""
        self.send(LAST)
        self._successor = successor
        successor.wait_for(self)
        if self._ended_by_other:
            self._make_way(successor)

    def wait_for(self, predecessor: LineConnection) -> None:
        """Read nothing before the connection that this one renews has brought its last word."""
        self._predecessor = predecessor
        asyncio.get_running_loop().remove_reader(self._socket)

    def _make_way(self, successor: LineConnection) -> None:
        self._successor = None
        if self._backlog:
            self._drains = True
            asyncio.get_running_loop().remove_reader(self._socket)
        else:
            self.close()
        successor.follow()

    def follow(self) -> None:
        """The last word of the connection before has come."""
        self._predecessor = None
        if not self._open:
            return
        asyncio.get_running_loop().add_reader(self._socket, self.readable)
        early, self._early = self._early, []
        try:
            for kind, body in early:
                self._said(kind, body)
        except FrameError as error:
            self.end(error)
        self.readable()

    # -- the end ------------------------------------------------------------------------------------------

    def end(self, error: FrameError) -> None:
        """Close for a reason that is told."""
        if not self._open:
            return
        successor, self._successor = self._successor, None
        self.close()
        if successor is not None:  # nobody can tell any more what came before what
            successor.end(error)
            return
        self._line.ended(self, self._ending, error)

    def close(self) -> None:
        """Let go of the socket."""
        if self._open:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._socket)
            loop.remove_writer(self._socket)
        self._open = False
        predecessor, self._predecessor = self._predecessor, None
        if predecessor is not None:
            predecessor.close()
        with contextlib.suppress(OSError):
            self._socket.close()
        if self._stream is not None:
            self._stream.release()
        self.closed.set()
        self.greeted.set()
