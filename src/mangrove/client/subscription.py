"""A subscription: an async iterator over messages, or a callback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Self

import nats.errors
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription as NatsSubscription

from mangrove.client.message import Message

Callback = Callable[[Message], Awaitable[None]]


class Subscription:
    """Messages of one subject. Iterate over it, or give a callback; end it with `unsubscribe`."""

    def __init__(self, inner: NatsSubscription, convert: Callable[[Msg], Message]) -> None:
        self._inner = inner
        self._convert = convert

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

    async def __aiter__(self) -> AsyncIterator[Message]:
        async for message in self._inner.messages:
            yield self._convert(message)

    async def next(self, timeout: float = 1.0) -> Message:
        """The next message, or TimeoutError."""
        try:
            return self._convert(await self._inner.next_msg(timeout=timeout))
        except nats.errors.TimeoutError:
            raise TimeoutError(f"no message on {self.subject} within {timeout:g} s") from None

    async def unsubscribe(self) -> None:
        """End the subscription. Ending it twice, or after the connection, is no error."""
        try:
            await self._inner.unsubscribe()
        except (nats.errors.BadSubscriptionError, nats.errors.ConnectionClosedError):
            return
