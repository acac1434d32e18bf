"""A subscription: an async iterator over messages, or a callback."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from types import TracebackType
from typing import Self

from mangrove.client.callbacks import Callbacks
from mangrove.client.message import Message
from mangrove.client.recent_ids import RecentIds
from mangrove.errors import MangroveError
from mangrove.model.pattern_cover import has_wildcard

log = logging.getLogger(__name__)

Callback = Callable[[Message], Awaitable[None]]

MAX_PENDING_MESSAGES = 512 * 1024
MAX_PENDING_BYTES = 128 << 20
"""What waits for a slow reader or callback; besides, the buffer that it is at."""


class Subscription:
    """Messages of one subject. Iterate over it, or give a callback; end it with `unsubscribe`.

    Messages come by `feed`, a buffer at a time, and it does not matter from where: whoever serves the
    subscription ends that in `end`.
    """

    def __init__(
        self,
        subject: str,
        queue: str,
        callback: Callback | None,
        callbacks: Callbacks,
        dropped: Counter[str],
        ready: Callable[[float], Awaitable[None]],
        end: Callable[[Subscription], Awaitable[None]],
    ) -> None:
        self.subject = subject
        """What was subscribed to."""
        self.queue = queue
        """The queue group, or an empty string."""
        self.messages = 0
        """Messages that came, second copies and dropped ones included."""
        self.size_bytes = 0
        """Bytes that came, on the wire."""
        self._callback = callback
        self._callbacks = callbacks
        self._in_turn = False
        self._dropped = dropped
        self._ready = ready
        self._end = end
        self._recent = RecentIds(one_subject=not has_wildcard(subject))
        self._batches: deque[tuple[list[Message], int]] = deque()
        self._pending_messages = 0
        self._pending_bytes = 0
        self._present: Iterator[Message] = iter(())
        """The rest of the buffer that the reader is at."""
        self._arrived = asyncio.Event()
        self._calling: asyncio.Task[None] | None = None
        self._ended = False

    # -- how messages come --------------------------------------------------------------------------------

    def feed(self, messages: list[Message], size_bytes: int) -> None:
        """Take what a buffer held; beyond the limits, or again, a message is left out and counted."""
        self.messages += len(messages)
        self.size_bytes += size_bytes
        if self._ended:
            return
        if (
            self._pending_messages + len(messages) > MAX_PENDING_MESSAGES
            or self._pending_bytes + size_bytes > MAX_PENDING_BYTES
        ):
            messages = self._drop(messages, size_bytes)
        fresh = self._recent.fresh(messages)
        if not fresh:
            return
        self._pending_messages += len(fresh)
        self._pending_bytes += size_bytes
        self._batches.append((fresh, size_bytes))
        if self._callback is None:
            self._arrived.set()
        elif not self._in_turn:
            self._in_turn = True
            self._callbacks.add(self)

    def _drop(self, messages: list[Message], size_bytes: int) -> list[Message]:
        """Only so many of the messages as there is room for, counted in messages of their average size."""
        room = (MAX_PENDING_BYTES - self._pending_bytes) * len(messages) // max(size_bytes, 1)
        kept = max(min(MAX_PENDING_MESSAGES - self._pending_messages, room), 0)
        for message in messages[kept:]:
            self._dropped[message.subject] += 1
            if self._dropped[message.subject] == 1:
                log.warning("this client is too slow for %s: messages are dropped", message.subject)
        return messages[:kept]

    def _take_up(self) -> bool:
        """Go on with the next buffer; whether there is one."""
        if not self._batches:
            return False
        messages, size_bytes = self._batches.popleft()
        self._pending_messages -= len(messages)
        self._pending_bytes -= size_bytes
        self._present = iter(messages)
        return True

    async def call(self) -> None:
        """Await the callback for one message after the other, until none is left."""
        callback = self._callback
        assert callback is not None, "only with a callback it has a turn"
        self._calling = asyncio.current_task()
        try:
            while not self._ended and self._take_up():
                for message in self._present:
                    try:
                        await callback(message)
                    except Exception:  # the user's code may raise anything; the next message is another
                        log.exception("the callback for %s failed", message.subject)
                    if self._ended:
                        return
        finally:
            self._calling = None
            self._in_turn = False

    # -- how they are read --------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.unsubscribe()

    async def ready(self, timeout: float = 10.0) -> None:
        """Wait until whatever is published from now on, in any domain that can be reached, is sent here.

        Raises TimeoutError with the names of the domains that did not confirm.
        """
        await self._ready(timeout)

    async def __aiter__(self) -> AsyncIterator[Message]:
        self._no_callback()
        while True:
            for message in self._present:
                yield message
            if not self._take_up() and not await self._more():
                return

    async def next(self, timeout: float = 1.0) -> Message:
        """The next message, or TimeoutError."""
        self._no_callback()
        while True:
            for message in self._present:
                return message
            if not self._take_up():
                try:
                    async with asyncio.timeout(timeout):
                        more = await self._more()
                except TimeoutError:
                    raise TimeoutError(f"no message on {self.subject} within {timeout:g} s") from None
                if not more:
                    raise MangroveError(f"the subscription to {self.subject} has ended")

    async def _more(self) -> bool:
        """Wait for messages; whether some have come before the end."""
        while not self._batches and not self._ended:
            self._arrived.clear()
            await self._arrived.wait()
        return bool(self._batches)

    def _no_callback(self) -> None:
        if self._callback is not None:
            raise MangroveError(f"the messages on {self.subject} go to a callback")

    @property
    def duplicates(self) -> int:
        """Second copies that were recognised by their id and left out."""
        return self._recent.duplicates

    @property
    def pending(self) -> int:
        """Messages that wait for the reader, besides those of the buffer that it is at."""
        return self._pending_messages

    # -- how it ends --------------------------------------------------------------------------------------

    async def unsubscribe(self) -> None:
        """End it, and what it asked for. Ending it twice, or after the connection, is no error.

        A callback that runs is cancelled; a reader gets what has come already.
        """
        self.finish()
        await self._end(self)

    def finish(self) -> None:
        """Nothing more will come."""
        self._ended = True
        self._arrived.set()
        if self._calling is not None and self._calling is not asyncio.current_task():
            self._calling.cancel()
