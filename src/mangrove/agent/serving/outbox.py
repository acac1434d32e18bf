"""What the agent says on the management broker: in order, bounded, and never waited for by the brain."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

import nats.errors
from nats.aio.client import Client

log = logging.getLogger(__name__)

MAX_WAITING = 50_000
MAX_MESSAGE_BYTES = 1_000_000
"""A little less than what management brokers take."""


class Outbox:
    """Messages on their way. What cannot be sent is dropped and counted; whoever said it says it again."""

    def __init__(self, dropped: Counter[str]) -> None:
        self._dropped = dropped
        self._waiting: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue(MAX_WAITING)

    def put(self, subject: str, payload: bytes) -> None:
        """Send when it is its turn."""
        if len(payload) > MAX_MESSAGE_BYTES:
            log.error("a message of %d bytes on %s cannot be sent", len(payload), subject)
            self._dropped["not sent: too large"] += 1
            return
        try:
            self._waiting.put_nowait((subject, payload))
        except asyncio.QueueFull:
            self._dropped["not sent: too many waited"] += 1

    async def run(self, connection: Client) -> None:
        """Send, until cancelled."""
        while True:
            subject, payload = await self._waiting.get()
            try:
                await connection.publish(subject, payload)
            except (nats.errors.Error, OSError):
                self._dropped["not sent: the management broker is away"] += 1
            finally:
                self._waiting.task_done()

    async def drained(self) -> None:
        """Wait until everything has been sent."""
        await self._waiting.join()
