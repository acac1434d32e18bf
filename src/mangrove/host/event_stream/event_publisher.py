"""Tells those who listen, on the management broker, what happened on this host."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

import msgspec
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from mangrove.host.event_stream.event_tail import EventTail
from mangrove.host.status_publisher import StatusPublisher
from mangrove.model.stream.events import EventHead, EventsQuestion, events_part, events_subject
from mangrove.model.unreadable import UNREADABLE

LOOK_S = 0.5
"""How often logs are looked at, while somebody listens."""
MAX_UNREAD = 100

_question = msgspec.json.Decoder(EventsQuestion)


class EventPublisher:
    """Says how many events there are, while somebody listens, and hands them out by the page."""

    def __init__(self, domain: str, host: str, paths: Iterable[Path]) -> None:
        self._subject = events_subject(domain, host)
        self._tail = EventTail(paths)
        self._publisher = StatusPublisher(domain, {events_part(host): self._account}, period_s=LOOK_S)
        self.ignored = 0
        """Questions that are none."""

    async def subscribe(self, connection: Client) -> None:
        """Hear who listens, and who asks."""
        await connection.subscribe(self._subject, cb=self._asked, pending_msgs_limit=MAX_UNREAD)
        await self._publisher.subscribe(connection)

    async def deliver(self, connection: Client) -> None:
        """Tell for as long as a connection lasts or until cancelled."""
        await self._publisher.deliver(connection)

    async def _account(self) -> EventHead:
        return self._tail.look()

    async def _asked(self, message: Msg) -> None:
        try:
            asked = _question.decode(message.data)
        except UNREADABLE:
            self.ignored += 1
            return
        if message.reply:
            with contextlib.suppress(OSError, nats.errors.Error):
                await message.respond(msgspec.json.encode(self._tail.page(asked)))
