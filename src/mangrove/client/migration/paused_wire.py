"""Keeps what is published on a subject while it moves to another broker, in order and within bounds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Container
from typing import NamedTuple, Protocol

from mangrove.broker.client_connection import BrokerAwayError, ClientConnection, Outlet

log = logging.getLogger(__name__)

MAX_BYTES = 1 << 22
"""Who publishes more waits, or is refused if he cannot."""


class PublishingWire(Protocol):
    """What publishing needs of a connection."""

    @property
    def connected(self) -> bool:
        """Whether what is published is on its way to a broker that is there."""

    @property
    def full(self) -> bool:
        """Whether publishers should wait for `drained`."""

    @property
    def max_payload(self) -> int:
        """The largest message that is taken."""

    async def drained(self) -> None:
        """Wait for room."""

    async def flush(self, timeout_s: float) -> None:
        """Wait until the broker has taken all that was published."""

    def publish(self, subject: str, payload: bytes, *, reply: str = "", head: bytes = b"") -> None:
        """Publish."""

    def outlet(self, subject: str, head_form: bytes) -> Outlet:
        """A quick way to publish on a subject."""

    def recall(self, subjects: Container[bytes]) -> None:
        """Forget what waits for a broker of these subjects: who published it says it again himself."""

    def abandon(self, reason: str) -> None:
        """Take the broker for dead, if there is nobody else who judges that."""


class _Kept(NamedTuple):
    payload: bytes
    reply: str
    head: bytes


class _Outlet:
    """Makes heads at once: ids and times are those of publishing, not of leaving."""

    def __init__(self, wire: PausedWire, head_form: bytes) -> None:
        self._wire = wire
        self._head_form = head_form
        self.messages = 0
        self.size_bytes = 0

    def publish(self, payload: bytes, first: int, second: int) -> None:
        """Keep a message."""
        self._wire.publish("", payload, head=self._head_form % (first, second))
        self.messages += 1
        self.size_bytes += len(payload)


class PausedWire:
    """Stands for a connection while a subject changes from one to another."""

    def __init__(self, subject: str, max_payload: int, old: ClientConnection | None = None) -> None:
        """`old` is where the subject was published so far."""
        self.max_payload = max_payload
        self._old = old
        self._subject = subject
        self._kept: list[_Kept] = []
        self._size_bytes = 0
        self._over = asyncio.Event()
        self._wire: ClientConnection | None = None

    @property
    def connected(self) -> bool:
        """Whether the broker of before is there: if it is lost, the move has failed."""
        return self._old is None or self._old.connected

    @property
    def full(self) -> bool:
        """Whether publishers should wait."""
        return self._size_bytes > MAX_BYTES and not self._over.is_set()

    async def drained(self) -> None:
        """Until the move is over."""
        await self._over.wait()

    async def flush(self, timeout_s: float) -> None:
        """Until the move is over, and the broker has taken what waited for it."""
        async with asyncio.timeout(timeout_s):
            await self._over.wait()
        if self._wire is not None:
            await self._wire.flush(timeout_s)

    def publish(self, subject: str, payload: bytes, *, reply: str = "", head: bytes = b"") -> None:
        """Keep a message."""
        if self._size_bytes > MAX_BYTES:
            raise BrokerAwayError(f"{self._subject} is on its way to another broker", hint="publish again")
        self._kept.append(_Kept(payload, reply, head))
        self._size_bytes += len(payload) + len(head)

    def outlet(self, subject: str, head_form: bytes) -> Outlet:
        """Keeps messages."""
        return _Outlet(self, head_form)

    def recall(self, subjects: Container[bytes]) -> None:
        """Forget all that is kept, if it is of one of these subjects."""
        if self._subject.encode() in subjects:
            self._kept = []
            self._size_bytes = 0

    def abandon(self, reason: str) -> None:
        """The move has its own limits of time."""

    def release(self, wire: ClientConnection) -> None:
        """Publish all that was kept; nothing comes here any more.

        What a connection that is away has no room for is lost, and counted by the connection.
        """
        kept, self._kept = self._kept, []
        self._size_bytes = 0
        unsent = 0
        for each in kept:
            try:
                wire.publish(self._subject, each.payload, reply=each.reply, head=each.head)
            except BrokerAwayError:
                unsent += 1
        if unsent:
            log.warning("%d messages on %s could not be sent: the broker is away", unsent, self._subject)
        self._wire = wire
        self._over.set()
