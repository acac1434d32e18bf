"""A subscription: an async iterator over messages, or a callback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Self

import nats.errors
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription as NatsSubscription

from mangrove.client.message import Message
from mangrove.client.recent_ids import RecentIds

Callback = Callable[[Message], Awaitable[None]]


class Subscription:
    """Messages of one subject. Iterate over it, or give a callback; end it with `unsubscribe`."""

    def __init__(
        self,
        inner: NatsSubscription,
        convert: Callable[[Msg], Message],
        recent: RecentIds,
        ready: Callable[[float], Awaitable[None]],
        end: Callable[[], Awaitable[None]],
    ) -> None:
        self._end = end
        self._ready = ready
        self._inner = inner
        self._convert = convert
        self._recent = recent

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.unsubscribe()

    @property
    def subject(self) -> str:
        """What was subscribed to."""
        return str(self._inner.subject)

    async def ready(self, timeout: float = 10.0) -> None:
        """Wait until whatever is published from now on, in any domain that can be reached, is sent here.

        Raises TimeoutError with the names of the domains that did not confirm.
        """
        await self._ready(timeout)

    async def __aiter__(self) -> AsyncIterator[Message]:
        async for raw in self._inner.messages:
            message = self._convert(raw)
            if self._recent.is_new(message.subject, message.id):
                yield message

    async def next(self, timeout: float = 1.0) -> Message:
        """The next message, or TimeoutError."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while True:
            try:
                raw = await self._inner.next_msg(timeout=max(deadline - loop.time(), 0.001))
            except nats.errors.TimeoutError:
                raise TimeoutError(f"no message on {self.subject} within {timeout:g} s") from None
            message = self._convert(raw)
            if self._recent.is_new(message.subject, message.id):
                return message

    @property
    def duplicates(self) -> int:
        """Second copies that were recognised by their id and left out."""
        return self._recent.duplicates

    async def unsubscribe(self) -> None:
        """End it, and what it asked for. Ending it twice, or after the connection, is no error."""
        await self._end()
        try:
            await self._inner.unsubscribe()
        except (nats.errors.BadSubscriptionError, nats.errors.ConnectionClosedError):
            return
