"""Stands between a gateway and its head broker: renames what passes, where a domain has names of its own.

Towards the broker all names are the domain's, towards the gateway the federation's. Where there are none of
its own it only remembers what is asked for, so that there may be some later.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import TypeVar

from mangrove.broker.attachment import Attachment, AttachmentOwner, Sorter
from mangrove.gateway.naming.site_names import SiteNames
from mangrove.gateway.naming.translations import Translations
from mangrove.model.selectors.group_names import selector_in
from mangrove.overlay.protocol.bodies import DISCARD, Flow, Message, Rewrite

AT_ONCE = 200
"""Patterns that are translated anew before others get their turn."""

Asked = tuple[str, str]
"""A pattern, and the queue group for which it is asked for; empty: for itself."""
Pattern = TypeVar("Pattern")


class RenamedAttachment:
    """See `Attachment` and `AttachmentOwner`: renames what passes between the two."""

    def __init__(
        self, site: SiteNames, attach: Callable[[AttachmentOwner], Attachment], owner: AttachmentOwner
    ) -> None:
        self._site = site
        self._owner = owner
        self._interest: Translations[Asked, Asked] = Translations(self._asked_elsewhere)
        """Local patterns, and what is asked of other domains for them."""
        self._wanted: Translations[str, str] = Translations(self._asked_here)
        """Patterns of the federation, and what is subscribed to at the broker for them."""
        self._attached = False
        self._interest_left: deque[Asked] = deque()
        """What is to be translated anew."""
        self._wanted_left: deque[str] = deque()
        self._next: asyncio.Handle | None = None
        self._inner = attach(self)

    def _asked_here(self, pattern: str) -> tuple[str, ...]:
        return (pattern,) if self._site.plain else self._site.names.wanted_elsewhere(pattern)

    def _asked_elsewhere(self, local: Asked) -> tuple[Asked, ...]:
        if self._site.plain:
            return (local,)
        pattern, group = local
        # Jobs would be sent here, or kept here, for which there is no member.
        shared = bool(group) and selector_in(group) is None
        beyond = shared and self._site.reaches_over(pattern)
        found = self._site.names.wanted_here(pattern)
        return tuple((each, group) for each in found if not (beyond and each == pattern))

    # -- the attachment -------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Stay attached until cancelled."""
        try:
            await self._inner.run()
        finally:
            self._stop()

    def subscribe(self, subjects: Iterable[str]) -> None:
        """Ask for what the domain's publishers send, by their names for it."""
        self._inner.subscribe([each for subject in subjects for each in self._wanted.add(subject)[1]])

    def unsubscribe(self, subjects: Iterable[str]) -> None:
        """End subscriptions that nothing else asks for."""
        known = (subject for subject in subjects if subject in self._wanted)
        self._inner.unsubscribe([each for subject in known for each in self._wanted.remove(subject)])

    def confirm(self, done: Callable[[], None]) -> None:
        """See `Attachment`."""
        self._inner.confirm(done)

    def after_interest(self, done: Callable[[], None]) -> None:
        """See `Attachment`."""
        self._inner.after_interest(done)

    def outlet(self, line: bytes, message: Message, groups: tuple[str, ...]) -> Flow:
        """The flow by which messages with this line reach subscribers under their own name for it."""
        local = self._site.entering(message)
        if local is None:
            return DISCARD
        if local.subject == message.subject:
            return self._inner.outlet(line, message, groups)
        local_line = local.line(local.subject, local.reply, local.groups)
        return Rewrite(line, local_line, message.skip, self._inner.outlet(local_line, local, groups))

    # -- other names ----------------------------------------------------------------------------------------

    async def learn_members(self) -> None:
        """Names of its own are to come: from now on it is known who is a member of which queue group."""
        if self._site.knows_members:
            return
        self._site.knows_members = True
        grouped = deque(local for local in self._interest.all() if local[1])
        while grouped:
            for local in _some(grouped):
                if local in self._interest:
                    self._site.member(*local, here=True)
            await asyncio.sleep(0)

    def translate_anew(self) -> None:
        """Other names hold: what is asked for, both ways, is asked for by them, a part at a time.

        What is called as before stays subscribed to throughout: by each pattern the new name is asked for
        before the old one is given up. A broker that is away is told all when it is back.
        """
        if not self._attached:
            return
        self._interest_left = deque(self._interest.all())
        self._wanted_left = deque(self._wanted.all())
        self._translate_some()

    def _translate_some(self) -> None:
        self._next = None
        begun, over = self._wanted.anew(_some(self._wanted_left))
        self._inner.subscribe(begun)
        self._inner.unsubscribe(over)
        asked, given_up = self._interest.anew(_some(self._interest_left))
        for wanted, changed in ((True, asked), (False, given_up)):
            for pattern, group in changed:
                self._owner.interest(pattern, group, wanted)
        self._owner.buffer_done()
        if self._interest_left or self._wanted_left:
            self._next = asyncio.get_running_loop().call_soon(self._translate_some)

    def _stop(self) -> None:
        self._attached = False
        self._interest_left.clear()
        self._wanted_left.clear()
        if self._next is not None:
            self._next.cancel()
            self._next = None

    # -- its owner ------------------------------------------------------------------------------------------

    @property
    def sorter(self) -> Sorter:
        """Lines are judged, and renamed, by the owner."""
        return self._owner.sorter

    def buffer_done(self) -> None:
        """See `AttachmentOwner`."""
        self._owner.buffer_done()

    def interest(self, subject: str, group: str, wanted: bool) -> None:
        """A local subscription came or went; that it is there may be told more than once."""
        local = subject, group
        if group and self._site.knows_members:
            self._site.member(subject, group, here=wanted)
        changed = self._interest.add(local)[0] if wanted else self._interest.remove(local)
        for pattern, _ in changed:
            self._owner.interest(pattern, group, wanted)

    def ignored(self, what: str) -> None:
        """See `AttachmentOwner`."""
        self._owner.ignored(what)

    def undelivered(self, reason: str, count: int, topic: str = "") -> None:
        """See `AttachmentOwner`. It may be of a topic whose messages come in alone, or go out alone."""
        if topic and not self._site.plain:
            topic = self._site.names.name_there(topic) or ""
        self._owner.undelivered(reason, count, topic)

    def attached(self, broker: str = "", *, elsewhere: bool = False) -> None:
        """Everything is to be said anew, both ways."""
        self._stop()
        self._attached = True
        self._wanted.clear()
        self._interest.clear()
        self._site.forget_members()
        self._owner.attached(broker, elsewhere=elsewhere)

    def doubted(self, doubted: bool) -> None:
        """See `AttachmentOwner`."""
        self._owner.doubted(doubted)

    def lost(self, reason: str) -> None:
        """See `AttachmentOwner`."""
        self._stop()
        self._owner.lost(reason)

    def writable(self, writable: bool) -> None:
        """See `AttachmentOwner`."""
        self._owner.writable(writable)


def _some(left: deque[Pattern]) -> list[Pattern]:
    return [left.popleft() for _ in range(min(AT_ONCE, len(left)))]
