"""Retained messages of a domain with names of its own: kept there by those, told by the federation's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from msgspec.structs import replace

from mangrove.broker.retained import RetainedMessage, RetainedStore, RetainedStoreOwner
from mangrove.gateway.naming.site_names import SiteNames


class RenamedStore:
    """See `RetainedStore` and `RetainedStoreOwner`: renames what passes between the two."""

    def __init__(
        self,
        site: SiteNames,
        store: Callable[[RetainedStoreOwner], RetainedStore],
        owner: RetainedStoreOwner,
    ) -> None:
        self._site = site
        self._owner = owner
        self._inner = store(self)

    async def run(self) -> None:
        """Stay connected until cancelled."""
        await self._inner.run()

    async def read(self) -> AsyncIterator[RetainedMessage]:
        """All that is kept and has a name in the federation."""
        nameless = []
        async for message in self._inner.read():
            # What other domains retain came in by its name there, and is known by that again.
            there = self._site.names.leaving if not message.origin else self._came_as
            subject = there(message.subject)
            if subject is not None:
                yield replace(message, subject=subject)
            elif message.origin and message.payload:
                nameless.append(message)
        for message in nameless:  # it came in by a name that the domain had before
            await self._inner.write(replace(message, payload=b""))

    def _came_as(self, subject: str) -> str | None:
        names = self._site.names
        found = [each for each in names.called_there(subject) if names.entering(each) == subject]
        return found[0] if found else None

    async def write(self, message: RetainedMessage) -> None:
        """Keep a message from another domain, if it has a name here."""
        subject = self._site.names.entering(message.subject)
        if subject is not None:
            await self._inner.write(replace(message, subject=subject))

    def store_attached(self) -> None:
        """See `RetainedStoreOwner`."""
        self._owner.store_attached()

    def retained(self, message: RetainedMessage) -> None:
        """A client of the own domain has published a retained message; what does not leave is not told."""
        subject = self._site.names.leaving(message.subject)
        if subject is not None:
            self._owner.retained(replace(message, subject=subject))

    def session_kept(self, name: str) -> None:
        """See `RetainedStoreOwner`."""
        self._owner.session_kept(name)
