"""What a client has published and the broker has not confirmed: kept within bounds, and said again.

A broker that is killed loses what it had not confirmed, so that is published again to the next one, in its
order. What it had taken although it could not say so comes twice, with one id. A broker that refuses a
message closes the channel; its words tell the subject, or the size, and all others are published again.

Payloads are cut into frames when they leave, for each broker says how large its frames may be. Headers cannot
be cut: what has too many for a broker is left out, for it would end this connection, and the one after it.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import deque
from collections.abc import Container
from typing import NamedTuple

from mangrove.broker.client_connection import BrokerAwayError, ConnectionCounts, Denial
from mangrove.broker.rabbitmq.wire import frames
from mangrove.broker.rabbitmq.wire.connection import AmqpConnection, AmqpError

log = logging.getLogger(__name__)

MAX_UNCONFIRMED_BYTES = 4 << 20
MAX_UNCONFIRMED = 20_000
"""Who publishes waits while so much is not confirmed."""
MAX_WAITING_BYTES = 16 << 20
"""Beyond it nothing more is taken from those who do not wait."""
MAX_AWAY_BYTES = 2 << 20
"""So much waits for the next broker while there is none."""
ACCESS_REFUSED, PRECONDITION_FAILED = 403, 406
NOT_TAKEN, REFUSED, TOO_LARGE = "a message was not taken", "a message was refused", "a message was too large"
HEAD_TOO_LARGE = "the headers of a message were larger than a frame of the broker"
_TOPIC = re.compile(r"access to topic '(?P<subject>.*)' in exchange '")
_SIZE = re.compile(r"message size (?P<size>\d+) is larger than \D*(?P<most>\d+)")


class Said(NamedTuple):
    """One message."""

    serial: int
    subject: str
    head: bytes
    """Its method frame and its header frame."""
    header_frame_bytes: int
    payload: bytes

    @property
    def size_bytes(self) -> int:
        """What it costs to keep."""
        return len(self.head) + len(self.payload)


class SaidMessages:
    """The publishing half of a client's connection; it outlives brokers."""

    def __init__(self, channel: int, counts: ConnectionCounts) -> None:
        self.channel = channel
        self.full = False
        self.max_payload = 1 << 27
        """What the broker takes; told when it has refused something larger."""
        self._counts = counts
        self._connection: AmqpConnection | None = None
        self._unconfirmed: dict[int, Said] = {}
        self._waiting: deque[Said] = deque()
        self._bytes = 0
        self._serial = 0
        self._number = 0
        self._paused = False
        self._closed = False
        self._turn: asyncio.Handle | None = None
        self._watching: set[asyncio.Future[None]] = set()

    @property
    def last(self) -> int:
        """The serial of what was said last."""
        return self._serial

    def add(self, subject: str, method: bytes, content_head: bytes, payload: bytes) -> None:
        """Publish: these two frames, and the payload's; BrokerAwayError if there is no room."""
        if self._closed:
            raise BrokerAwayError("the connection is closed")
        said = Said(self._serial + 1, subject, method + content_head, len(content_head), payload)
        most = MAX_AWAY_BYTES if self._connection is None else MAX_WAITING_BYTES
        if self._bytes + said.size_bytes > most:
            self._counts.unsent_messages += 1
            what = "the broker is away" if self._connection is None else "the broker takes no more for now"
            raise BrokerAwayError(
                f"{what}, and {self._bytes:,} bytes wait for it", hint="wait, and publish again"
            )
        self._serial = said.serial
        self._waiting.append(said)
        self._bytes += said.size_bytes
        self._look()
        if self._connection is not None and self._turn is None:
            self._turn = asyncio.get_running_loop().call_soon(self.write)

    def write(self) -> None:
        """Hand over all that waits."""
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        if self._connection is None or not self._waiting:
            return
        data: list[bytes] = []
        frame_max = self._connection.frame_max
        for said in self._waiting:
            self._number += 1
            self._unconfirmed[self._number] = said
            data += (said.head, frames.body_frames(self.channel, said.payload, frame_max))
        self._waiting.clear()
        whole = b"".join(data)
        self._counts.sent_bytes += len(whole)
        self._connection.write(whole)

    # -- the broker ---------------------------------------------------------------------------------------

    def attach(self, connection: AmqpConnection) -> None:
        """The channel is open, and confirms; its first publication is number one."""
        self._connection = connection
        self._number = 0
        connection.on_confirm = self._confirmed
        connection.on_writable = self._writable
        self._leave_out_unfit(connection.frame_max)
        self.write()
        self._look()

    def _leave_out_unfit(self, frame_max: int) -> None:
        """What the last broker would have taken, or was said while there was none."""
        if any(said.header_frame_bytes > frame_max for said in self._waiting):
            unfit = self._drop(lambda said: said.header_frame_bytes > frame_max)
            self._counts.errors[HEAD_TOO_LARGE] += unfit
            log.warning(
                "%d messages have more headers than a frame of this broker: %d bytes", unfit, frame_max
            )

    def detach(self) -> None:
        """The broker, or the channel, is gone: what is not confirmed is said first to the next one."""
        self._connection = None
        self._paused = False
        self._waiting.extendleft(reversed(self._unconfirmed.values()))
        self._unconfirmed.clear()
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        self._look()

    def refused(self, why: AmqpError) -> Denial | None:
        """The broker closed the channel: what it refused is left out, and counted; whom to tell, if known."""
        topic, size = _TOPIC.search(why.message), _SIZE.search(why.message)
        if why.code == ACCESS_REFUSED and topic is not None:
            self._drop(lambda said: said.subject == topic["subject"])
            return Denial(publishing=True, subject=topic["subject"])
        if why.code == PRECONDITION_FAILED and size is not None:
            self.max_payload = int(size["most"])
            self._counts.errors[TOO_LARGE] += self._drop(lambda said: len(said.payload) > self.max_payload)
            return None
        # Nobody can tell which one it was: none of them may close the next channel, too.
        self._counts.errors[REFUSED] += self._drop(lambda _: True)
        return None

    def recall(self, subjects: Container[bytes]) -> None:
        """Forget messages on these subjects, if no broker is there."""
        if self._connection is None:
            self._drop(lambda said: said.subject.encode() in subjects)

    def _drop(self, meant: object) -> int:
        assert callable(meant)
        kept = [said for said in (*self._unconfirmed.values(), *self._waiting) if not meant(said)]
        dropped = len(self._unconfirmed) + len(self._waiting) - len(kept)
        self._unconfirmed.clear()
        self._waiting = deque(kept)
        self._bytes = sum(said.size_bytes for said in kept)
        self._look()
        return dropped

    def _confirmed(self, number: int, multiple: bool, taken: bool) -> None:
        unconfirmed = self._unconfirmed
        numbers = [number] if number in unconfirmed else []
        if multiple:
            numbers = []
            for each in unconfirmed:
                if each > number:
                    break
                numbers.append(each)
        for each in numbers:
            self._bytes -= unconfirmed.pop(each).size_bytes
        if not taken:
            self._counts.errors[NOT_TAKEN] += len(numbers)
        self._look()

    def _writable(self, writable: bool) -> None:
        self._paused = not writable
        self._look()

    # -- waiting ------------------------------------------------------------------------------------------

    def _look(self) -> None:
        self.full = self._connection is not None and (
            self._paused
            or self._bytes > MAX_UNCONFIRMED_BYTES
            or len(self._unconfirmed) + len(self._waiting) > MAX_UNCONFIRMED
        )
        watching, self._watching = self._watching, set()
        for each in watching:
            if not each.done():
                each.set_result(None)

    async def changed(self) -> None:
        """Wait until something was confirmed, refused or said."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._watching.add(future)
        try:
            await future
        finally:
            self._watching.discard(future)

    async def drained(self) -> None:
        """Hand over what waits, let others have their turn, and come back when there is room."""
        self.write()
        await asyncio.sleep(0)
        while self.full:
            await self.changed()

    def taken(self, serial: int) -> bool:
        """Whether the broker has confirmed, or refused, everything up to a serial."""
        first = next(iter(self._unconfirmed.values()), None) or (self._waiting[0] if self._waiting else None)
        return first is None or first.serial > serial

    def close(self) -> None:
        """Take nothing more."""
        self.detach()
        self._closed = True
        self._drop(lambda _: True)
