"""What the agent says on the management broker: in order, bounded, and never waited for by the brain."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import nats.errors
from nats.aio.client import Client

log = logging.getLogger(__name__)

MAX_WAITING = 50_000
MAX_MESSAGE_BYTES = 1_000_000
"""Of what is said unasked, or to clients."""


class Outgoing(NamedTuple):
    """A message that waits to be sent."""

    subject: str
    payload: bytes
    as_leader: bool
    term: int
    """In which it was decided on."""


class Outbox:
    """Messages on their way. What cannot be sent is dropped and counted; whoever said it says it again."""

    def __init__(self, dropped: Counter[str], leads_in: Callable[[], int] = lambda: 0) -> None:
        """`leads_in` says in which term this agent leads; 0: in none."""
        self._leads_in = leads_in
        self._dropped = dropped
        self._waiting: asyncio.Queue[Outgoing] = asyncio.Queue(MAX_WAITING)

    def put(
        self, subject: str, payload: bytes, *, as_leader: bool = True, max_bytes: int = MAX_MESSAGE_BYTES
    ) -> None:
        """Send when it is its turn; what only a leader may say, only if this agent leads then."""
        if len(payload) > max_bytes:
            log.error("a message of %d bytes on %s cannot be sent", len(payload), subject)
            self._dropped["not sent: too large"] += 1
            return
        try:
            self._waiting.put_nowait(Outgoing(subject, payload, as_leader, self._leads_in()))
        except asyncio.QueueFull:
            self._dropped["not sent: too many waited"] += 1

    async def run(self, connection: Client, leads: Callable[[], bool]) -> None:
        """Send, until cancelled. A process that was stopped for a while has messages of another time."""
        while True:
            message = await self._waiting.get()
            if message.as_leader and (not leads() or message.term != self._leads_in()):
                self._dropped["not sent: this agent does not lead any more"] += 1
                continue
            try:
                await connection.publish(message.subject, message.payload)
            except (nats.errors.Error, OSError):
                self._dropped["not sent: the management broker is away"] += 1
