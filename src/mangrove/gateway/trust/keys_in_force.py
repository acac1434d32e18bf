"""The keys of a gateway as they are now: its files are looked at again and again, a change is taken over."""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import TYPE_CHECKING

from mangrove.errors import InputError
from mangrove.host.audit.audit_log import AuditLog
from mangrove.model.audit.entry import AuditKind

if TYPE_CHECKING:
    from mangrove.host.keys.ring import KeyRing

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.5


class KeysInForce:
    """Holds the ring in force; one for each process. `follow` is a task for as long as it is used.

    What cannot be read leaves the ring before it in force, and is told once.
    """

    def __init__(self, ring: KeyRing, audit: AuditLog | None = None) -> None:
        self.ring = ring
        self._audit = audit or AuditLog()
        self.problem = ""
        """Why changed files are not in force; empty if they are."""
        self.generation = 0
        """How often other keys were taken over."""
        self._server, self._client = _contexts(ring)

    @classmethod
    def read(cls, folder: str, audit: AuditLog | None = None) -> KeysInForce:
        """The keys in a domain's folder; InputError with the place and the remedy."""
        from mangrove.host.keys.ring import KeyRing

        return cls(KeyRing.read(folder), audit)

    def context(self, *, server_side: bool) -> ssl.SSLContext:
        """For a new connection."""
        return self._server if server_side else self._client

    async def follow(self) -> None:
        """Look for other keys until cancelled."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            await self.look()

    async def look(self) -> bool:
        """Take over other keys if there are any; whether there were. They are read beside the event loop."""
        if not self.ring.changed():
            return False
        try:
            ring, contexts = await asyncio.to_thread(_renewed, self.ring)
        except (InputError, ssl.SSLError, OSError) as error:
            if str(error) != self.problem:
                self.problem = str(error)
                log.error("the keys have changed and cannot be used, those before stay: %s", error)
                self._audit.note(AuditKind.KEYS_REFUSED, problem=str(error))
            return False
        self.problem = ""
        self.ring = ring
        self._server, self._client = contexts
        self.generation += 1
        log.info("other keys are in force")
        self._audit.note(AuditKind.KEYS_TAKEN_OVER, generation=ring.generation)
        return True


def _renewed(ring: KeyRing) -> tuple[KeyRing, tuple[ssl.SSLContext, ssl.SSLContext]]:
    later = ring.renewed()
    return later, _contexts(later)


def _contexts(ring: KeyRing) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """For who listens, and for who calls. Sessions are never resumed: each connection is judged anew."""
    server, client = ring.server_context(), ring.client_context()
    server.num_tickets = 0
    return server, client
