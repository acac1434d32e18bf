"""What a client has said and the broker has not yet been handed: it leaves at the end of the loop's turn."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Container

from mangrove.broker.client_connection import BrokerAwayError, ConnectionCounts

TURN_BYTES = 1 << 16
"""Who publishes so much at once lets others have their turn."""
MAX_WAITING_BYTES = 1 << 24
"""Beyond it nothing more is taken from those who do not wait for room."""
MAX_AWAY_BYTES = 1 << 21
"""So much waits for the next broker while there is none."""


class Outgoing:
    """A bounded buffer of whole protocol lines, handed to the present transport in one write.

    What the transport cannot take at once stays here, so that little is lost with a broker.
    """

    def __init__(self, counts: ConnectionCounts) -> None:
        self.full = False
        self._counts = counts
        self._waiting: list[bytes] = []
        self._size_bytes = 0
        self._bound = MAX_AWAY_BYTES
        self._transport: asyncio.Transport | None = None
        self._paused = False
        self._turn: asyncio.Handle | None = None
        self._room: deque[asyncio.Future[None]] = deque()

    def add(self, line: bytes) -> None:
        """Say something; BrokerAwayError if there is no room."""
        waiting = self._waiting
        if not waiting and self._transport is not None:
            self._turn = asyncio.get_running_loop().call_soon(self._end_turn)
        waiting.append(line)
        self._size_bytes = size_bytes = self._size_bytes + len(line)
        if size_bytes > self._bound:
            self._beyond(line)

    def _beyond(self, line: bytes) -> None:
        self.full = self._transport is not None
        before = self._size_bytes - len(line)
        if not self.full or before > MAX_WAITING_BYTES:
            self._waiting.pop()
            self._size_bytes = before
            if self._bound < 0:
                raise BrokerAwayError("the connection is closed")
            self._counts.unsent_messages += 1
            what = "the broker takes no more for now" if self.full else "the broker is away"
            raise BrokerAwayError(f"{what}, and {before:,} bytes wait for it", hint="wait, and publish again")

    def say(self, line: bytes) -> None:
        """Say something that needs no room, in its turn. Nothing happens while the broker is away."""
        if self._transport is not None:
            if not self._waiting:
                self._turn = asyncio.get_running_loop().call_soon(self._end_turn)
            self._waiting.append(line)
            self._size_bytes += len(line)

    # -- the broker ---------------------------------------------------------------------------------------

    def attach(self, transport: asyncio.Transport, first: bytes) -> None:
        """A broker is there: it hears `first`, and then what has waited for it."""
        self._transport = transport
        self._bound = TURN_BYTES
        self._paused = False
        transport.write(first)
        self.write()

    def hold(self) -> None:
        """Hand over what waits; from then on everything waits for the next transport."""
        self.write()
        self._paused = True

    def detach(self) -> None:
        """The broker is gone; what has not been handed to it waits for the next one."""
        self._transport = None
        self._bound = MAX_AWAY_BYTES
        self._end_wait()

    def recall(self, subjects: Container[bytes]) -> None:
        """Forget messages on these subjects, if no broker is there; all else goes on waiting."""
        if self._transport is None:
            self._waiting = [line for line in self._waiting if _subject_of(line) not in subjects]
            self._size_bytes = sum(map(len, self._waiting))

    def pause(self) -> None:
        """The transport cannot take more for now."""
        self._paused = True

    def resume(self) -> None:
        """The transport can take more."""
        self._paused = False
        self.write()

    def write(self) -> None:
        """Hand over all that waits, if the transport can take it."""
        if self._transport is None or self._paused:
            return
        if self._waiting:
            data = b"".join(self._waiting)
            self._waiting.clear()
            self._size_bytes = 0
            self._counts.sent_bytes += len(data)
            self._transport.write(data)
        if not self._paused:
            self._end_wait()

    def _end_turn(self) -> None:
        self._turn = None
        self.write()

    # -- waiting for room ---------------------------------------------------------------------------------

    async def drained(self) -> None:
        """Hand over what waits, let others have their turn, and come back when there is room."""
        self.write()
        if not self.full:
            await asyncio.sleep(0)
            return
        room = asyncio.get_running_loop().create_future()
        self._room.append(room)
        await room

    def _end_wait(self) -> None:
        self.full = False
        while self._room:
            room = self._room.popleft()
            if not room.done():
                room.set_result(None)

    def close(self) -> None:
        """Forget everything, and take nothing more."""
        self.detach()
        self._bound = -1
        self._waiting.clear()
        self._size_bytes = 0
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None


def _subject_of(line: bytes) -> bytes:
    """What is published there; empty for a line that publishes nothing."""
    return line.split(b" ", 2)[1] if line.startswith((b"HPUB ", b"PUB ")) else b""


class NatsOutlet:
    """Publishes on one subject: a line and a head for each size of payload, in which two numbers are open."""

    __slots__ = ("_forms", "_head", "_head_bytes", "_outgoing", "_subject", "messages", "size_bytes")

    def __init__(self, outgoing: Outgoing, subject: str, head_form: bytes) -> None:
        self._outgoing = outgoing
        self._subject = subject.encode()
        self._head = head_form
        self._head_bytes = len(head_form % (0, 0))
        self._forms: dict[int, bytes] = {}
        self.messages = 0
        self.size_bytes = 0

    def publish(self, payload: bytes, first: int, second: int) -> None:
        """Publish with these numbers in the head."""
        size_bytes = len(payload)
        form = self._forms.get(size_bytes) or self._form(size_bytes)
        self._outgoing.add(form % (first, second, payload))
        self.messages += 1
        self.size_bytes += size_bytes

    def _form(self, size_bytes: int) -> bytes:
        line = b"HPUB %b %d %d\r\n" % (self._subject, self._head_bytes, self._head_bytes + size_bytes)
        form = b"%b%b%%b\r\n" % (line.replace(b"%", b"%%"), self._head)
        if len(self._forms) >= MAX_FORMS:
            self._forms.clear()
        self._forms[size_bytes] = form
        return form


MAX_FORMS = 64
