"""Says on the management broker what changed in parts of a domain, while somebody listens."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping

import msgspec
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from mangrove.model.stream.messages import LEASE_S, PERIOD_S, read_watch, said_subject, watch_subject
from mangrove.model.stream.telling import Teller
from mangrove.model.unreadable import UNREADABLE

log = logging.getLogger(__name__)

MIN_GAP_S = 0.2
"""However often something changes at once, or the whole is asked for."""
MAX_UNREAD = 100

Account = Callable[[], Awaitable[msgspec.Struct | None]]
"""Makes the account of a part; None: there is nothing to say now."""


class StatusPublisher:
    """Tells of some parts, over whatever connection their process has.

    It costs as much for ten listeners as for one, and nothing without any: an account is not even made. A
    listener that is slow or away is the broker's affair.
    """

    def __init__(self, domain: str, accounts: Mapping[str, Account], *, period_s: float = PERIOD_S) -> None:
        self._domain = domain
        self._accounts = accounts
        self._period_s = period_s
        life = time.time_ns()
        self._tellers = {part: Teller(life) for part in accounts}
        self._until = 0.0
        self._whole: set[str] = set()
        self._due = asyncio.Event()
        self.ignored = 0
        """Words that are none."""

    @property
    def watched(self) -> bool:
        """Whether somebody listens."""
        return time.monotonic() < self._until

    def poke(self) -> None:
        """Something happened that listeners should hear of at once."""
        if self.watched:
            self._due.set()

    async def subscribe(self, connection: Client) -> None:
        """Hear who listens."""
        await connection.subscribe(watch_subject(self._domain), cb=self._heard, pending_msgs_limit=MAX_UNREAD)

    async def deliver(self, connection: Client) -> None:
        """Tell for as long as a connection lasts or until cancelled."""
        while True:
            if self.watched:
                began = time.monotonic()
                await self._tell(connection)
                await asyncio.sleep(MIN_GAP_S)
                await self._wait(max(0.0, self._period_s - (time.monotonic() - began)))
            else:
                for teller in self._tellers.values():
                    teller.forget()
                await self._wait(None)

    async def _wait(self, seconds: float | None) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._due.wait()
        self._due.clear()

    async def _heard(self, message: Msg) -> None:
        try:
            watch = read_watch(message.data)
        except (ValueError, *UNREADABLE):
            self.ignored += 1
            return
        began = not self.watched
        self._until = time.monotonic() + LEASE_S
        wanted = self._accounts.keys() if "*" in watch.whole else self._accounts.keys() & set(watch.whole)
        self._whole |= wanted
        if began or wanted:
            self._due.set()

    async def _tell(self, connection: Client) -> None:
        whole, self._whole = self._whole, set()
        for part, account in self._accounts.items():
            try:
                made = await account()
            except Exception:  # to be watched must not end what is watched
                log.exception("the account of %s cannot be made", part)
                made = None
            if made is None:
                self._tellers[part].forget()
                continue
            payload = self._tellers[part].tell(made, time.time(), whole=part in whole)
            try:
                await connection.publish(said_subject(self._domain, part), payload)
            except (nats.errors.Error, OSError):
                self._tellers[part].forget()  # the broker is away
