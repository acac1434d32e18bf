"""A publisher of one subject that asks for more than its contract."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import TracebackType
from typing import Protocol, Self

from mangrove.client.publishing import Outcome


class Publish(Protocol):
    """`PublishingConnection.publish`."""

    def __call__(
        self,
        subject: str,
        data: bytes = b"",
        *,
        headers: Mapping[str, str] | None = None,
        reply: str = "",
        keywords: Iterable[str] | None = None,
        utility: float | None = None,
    ) -> Awaitable[Outcome]:
        """Publish a message."""


class Publisher:
    """Publishes on one subject. What it asks for holds until it is closed. Made by `Connection.publisher`."""

    def __init__(self, subject: str, publish: Publish, end: Callable[[], Awaitable[None]]) -> None:
        self.subject = subject
        self._publish = publish
        self._end = end

    async def publish(
        self,
        data: bytes = b"",
        *,
        headers: Mapping[str, str] | None = None,
        reply: str = "",
        keywords: Iterable[str] | None = None,
        utility: float | None = None,
    ) -> Outcome:
        """Publish a message as `PublishingConnection.publish` does, and tell what became of it."""
        return await self._publish(
            self.subject, data, headers=headers, reply=reply, keywords=keywords, utility=utility
        )

    async def close(self) -> None:
        """Ask for nothing more. Closing twice is no error."""
        await self._end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
