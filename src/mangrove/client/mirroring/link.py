"""A connection to one mirror broker, held while a topic needs it and made anew whenever it is lost."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Protocol

from mangrove.broker.client_connection import BrokerAwayError, ClientConnection, ClientConnectionOwner

RETRY_S = 0.25
IN_FORCE_S = 1.0

Open = Callable[[str, ClientConnectionOwner], Awaitable[ClientConnection]]


class MirrorLinkOwner(Protocol):
    """Who uses mirrors."""

    def joined(self, link: MirrorLink) -> None:
        """The broker is there: everything begins anew on the new connection."""

    def parted(self, link: MirrorLink, evidence: str) -> None:
        """It is gone, and what was on its way to or from it."""


class MirrorLink:
    """Never leads to another broker than its own, and keeps nothing for it while it is away.

    What was said to a mirror late would be taken for something new.
    """

    def __init__(self, broker: str, url: str, open_: Open, owner: MirrorLinkOwner) -> None:
        self.broker = broker
        self.wire: ClientConnection | None = None
        """None while the broker is away."""
        self._url = url
        self._open = open_
        self._owner = owner
        self._lost = asyncio.Event()
        self._in_force = asyncio.Event()
        self._closing = False
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"mirror at {broker}")

    async def _run(self) -> None:
        while True:
            self._lost.clear()
            try:
                wire = await self._open(self._url, self)
            except (BrokerAwayError, TimeoutError):
                await asyncio.sleep(RETRY_S)
                continue
            try:
                self.wire = wire
                self._owner.joined(self)
                with contextlib.suppress(BrokerAwayError, TimeoutError):
                    await wire.flush(IN_FORCE_S)
                    self._in_force.set()
                await self._lost.wait()
            finally:
                self.wire = None
                await wire.close()

    def lost(self, url: str, reason: str) -> None:
        """See `ClientConnectionOwner`."""
        self._part("closed")

    def back(self, url: str) -> None:
        """See `ClientConnectionOwner`: it is closed before that."""

    def silent(self) -> None:
        """It does not answer."""
        if self.wire is not None:
            self.wire.abandon("the broker does not answer")
        self._part("silent")

    def _part(self, evidence: str) -> None:
        if self.wire is not None and not self._closing:
            self.wire = None
            self._in_force.clear()
            self._lost.set()
            self._owner.parted(self, evidence)

    async def in_force(self) -> None:
        """Wait until the broker has taken all that was said when it came."""
        await self._in_force.wait()

    def end(self) -> asyncio.Task[None]:
        """Let go of it; what it is closed by."""
        self._closing = True
        self._task.cancel()
        return self._task
