"""The events of one host, asked for a page at a time whenever the host says that there are more."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import nats.errors
from nats.aio.client import Client

from mangrove.model.stream.events import EventHead, EventsPage, EventsQuestion, events_subject
from mangrove.model.stream.telling import Follower
from mangrove.model.unreadable import UNREADABLE

ANSWER_S = 2.0
MAX_PAGES = 100
"""At a time: whoever has more to tell is asked again later."""

Take = Callable[[Sequence[msgspec.Raw]], None]

_page = msgspec.json.Decoder(EventsPage)


class HostEvents:
    """Knows how far the events of a host were read; what it gets it hands on."""

    def __init__(self, domain: str, host: str, take: Take) -> None:
        self._subject = events_subject(domain, host)
        self._take = take
        self._life = 0
        self._count = 0
        self.head = Follower(EventHead)
        """What the host says in its stream."""
        self.missed = 0
        """Events that were not kept long enough to be got."""

    @property
    def behind(self) -> bool:
        """Whether there is more to be asked for."""
        head = self.head.account
        return head is not None and (head.life, head.count) != (self._life, self._count)

    async def catch_up(self, connection: Client) -> None:
        """Ask until there is nothing more, or nobody answers; then it is tried again with the next word."""
        for _ in range(MAX_PAGES):
            question = EventsQuestion(life=self._life, after=self._count)
            try:
                answer = await connection.request(
                    self._subject, msgspec.json.encode(question), timeout=ANSWER_S
                )
                page = _page.decode(answer.data)
            except (nats.errors.Error, OSError, TimeoutError, *UNREADABLE):
                return
            if page.life == self._life:
                self.missed += max(0, page.first - self._count)
            self._life, self._count = page.life, page.first + len(page.lines)
            self._take(page.lines)
            if not page.lines or self._count >= page.count:
                self._count = page.count
                return
