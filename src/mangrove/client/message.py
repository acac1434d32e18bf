"""A message as subscribers see it, and the headers that Mangrove puts on it."""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from mangrove.errors import InputError
from mangrove.model.shared_names import ID_HEADER, TIME_HEADER


class MessageIds:
    """Unique message ids: a random name for this publisher, and a count."""

    def __init__(self) -> None:
        self._prefix = secrets.token_urlsafe(9)
        self._count = itertools.count(1)

    def next(self) -> str:
        """The next id."""
        return f"{self._prefix}.{next(self._count)}"


def stamped(headers: Mapping[str, str] | None, ids: MessageIds) -> dict[str, str]:
    """The user's headers with a unique id and the time of publishing (nanoseconds since 1970, UTC)."""
    result = dict(headers or {})
    for name, value in result.items():
        if not name or any(c in name for c in ":\r\n ") or "\r" in value or "\n" in value:
            raise InputError(f"the header {name!r}: {value!r} cannot be sent", hint="use one-line text")
    result.setdefault(ID_HEADER, ids.next())
    result.setdefault(TIME_HEADER, str(time.time_ns()))
    return result


@dataclass(frozen=True, slots=True)
class Message:
    """A received message."""

    subject: str
    data: bytes
    headers: Mapping[str, str]
    reply: str
    _respond: Callable[[str, bytes, Mapping[str, str] | None], Awaitable[None]] = field(repr=False)

    @property
    def id(self) -> str | None:
        """The unique id, if the publisher used this SDK."""
        return self.headers.get(ID_HEADER)

    @property
    def published_at(self) -> float | None:
        """When it was published, in seconds since 1970, by the publisher's clock."""
        text = self.headers.get(TIME_HEADER, "")
        return int(text) / 1e9 if text.isascii() and text.isdigit() else None

    async def respond(self, data: bytes, headers: Mapping[str, str] | None = None) -> None:
        """Answer a request."""
        if not self.reply:
            raise InputError(f"the message on {self.subject} did not ask for a reply")
        await self._respond(self.reply, data, headers)
