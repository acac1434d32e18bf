"""The directory as a follower holds it, kept up as the leader writes: a take-over need not read it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import nats.errors
from nats.aio.msg import Msg

from mangrove.store.buckets import DIRECTORY, Buckets, StoreAwayError, is_value
from mangrove.store.directory import MAX_RECORDS

log = logging.getLogger(__name__)

LOOK_S = 0.5
RETRY_S = 1.0
CATCH_UP_S = 1.0


class DirectoryReplica:
    """Values by subject, as long as this agent follows; a leader has the directory itself."""

    def __init__(self, buckets: Buckets, follows: Callable[[], bool]) -> None:
        self._buckets = buckets
        self._follows = follows
        self._values: dict[str, bytes] = {}
        self._last = 0
        """The latest revision that was seen."""
        self._seen = asyncio.Event()

    def __len__(self) -> int:
        return len(self._values)

    async def run(self) -> None:
        """Follow, until cancelled."""
        while True:
            if self._follows():
                try:
                    await self._follow()
                except (nats.errors.Error, StoreAwayError, OSError) as error:
                    log.debug("the directory is not followed: %s", error)
                self._forget()
            await asyncio.sleep(RETRY_S)

    async def _follow(self) -> None:
        await self._buckets.bucket(DIRECTORY)
        async with self._buckets.follow(DIRECTORY) as subscription:
            while len(self._values) <= MAX_RECORDS:
                try:
                    self._take(await subscription.next_msg(timeout=LOOK_S))
                except nats.errors.TimeoutError:
                    if not self._follows():
                        return

    def _take(self, message: Msg) -> None:
        if is_value(message):
            self._values[message.subject] = message.data
        else:
            self._values.pop(message.subject, None)
        self._last = message.metadata.sequence.stream
        self._seen.set()

    def _forget(self) -> None:
        self._values.clear()
        self._last = 0

    async def through(self, revision: int) -> list[bytes] | None:
        """All values, when everything up to a revision has been seen; None if that is not soon."""
        if not revision or not self._last:
            return None
        try:
            async with asyncio.timeout(CATCH_UP_S):
                while self._last < revision:
                    self._seen.clear()
                    await self._seen.wait()
        except TimeoutError:
            return None
        return list(self._values.values())
