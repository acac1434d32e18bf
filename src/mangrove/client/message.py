"""A message as subscribers see it, and the headers that Mangrove puts on it."""

from __future__ import annotations

import itertools
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from mangrove.broker.message_heads import decode_head, header_problem
from mangrove.broker.message_ids import COUNT_DIGITS, ID_END, ID_START, identity_of
from mangrove.client.publishing import Outcome
from mangrove.errors import InputError
from mangrove.model.shared_names import ID_HEADER, TIME_HEADER

TIME_START = b"\r\n%b: " % TIME_HEADER.encode()
HEAD_BYTES = ID_END + len(TIME_START) + 19 + 4
"""The size of a head that has nothing else in it."""
_TIME = re.compile(rb"\r\n%b:[ \t]*(\d{1,20})[ \t]*\r\n" % TIME_HEADER.encode())


class MessageIds:
    """Unique message ids: a random name for this publisher, and a count.

    All are equally long, so that a head is made of a form, and ids of one publisher sort by their count.
    """

    def __init__(self) -> None:
        self.prefix = secrets.token_urlsafe(9)
        self.count = itertools.count(1).__next__
        """Takes the next number."""
        self.head_form = b"%b%b.%%0%dx%b%%019d\r\n\r\n" % (
            ID_START,
            self.prefix.encode(),
            COUNT_DIGITS,
            TIME_START,
        )
        """A head, of a count and a time in nanoseconds."""

    def next(self) -> str:
        """The next id."""
        return f"{self.prefix}.{self.count():0{COUNT_DIGITS}x}"


def stamped(headers: Mapping[str, str] | None, ids: MessageIds) -> dict[str, str]:
    """The user's headers with a unique id and the time of publishing (nanoseconds since 1970, UTC)."""
    given = dict(headers or {})
    for name, value in given.items():
        if header_problem(name, value):
            raise InputError(f"the header {name!r}: {value!r} cannot be sent", hint="use one-line text")
    # They come first, as in heads made of a form: by that subscribers know them.
    own = {ID_HEADER: given.get(ID_HEADER) or ids.next(), TIME_HEADER: f"{time.time_ns():019d}"}
    return own | given


Respond = Callable[[str, bytes, Mapping[str, str] | None], Awaitable[Outcome]]


class Message(msgspec.Struct, frozen=True, gc=False, eq=False):
    """A received message. Its headers are read when they are asked for."""

    subject: str
    data: bytes
    head: bytes | Mapping[str, str]
    """The headers as they came, or as somebody made them."""
    reply: str
    _respond: Respond

    @property
    def headers(self) -> Mapping[str, str]:
        """All headers."""
        if isinstance(self.head, bytes):
            return decode_head(self.head) if self.head else {}
        return self.head

    @property
    def id(self) -> str | None:
        """The unique id, if the publisher used this SDK."""
        if not isinstance(self.head, bytes):
            return self.head.get(ID_HEADER)
        identity = identity_of(self.head)
        return None if identity is None else identity.decode(errors="replace")

    @property
    def published_at(self) -> float | None:
        """When it was published, in seconds since 1970, by the publisher's clock."""
        if isinstance(self.head, bytes):
            found = _TIME.search(self.head)
            return None if found is None else int(found[1]) / 1e9
        text = self.head.get(TIME_HEADER, "")
        return int(text) / 1e9 if text.isascii() and text.isdigit() else None

    async def respond(self, data: bytes, headers: Mapping[str, str] | None = None) -> Outcome:
        """Answer a request. Answers to inboxes have no limits; others have those of their subject."""
        if not self.reply:
            raise InputError(f"the message on {self.subject} did not ask for a reply")
        return await self._respond(self.reply, data, headers)

    def __repr__(self) -> str:
        return f"Message(subject={self.subject!r}, data={self.data!r}, reply={self.reply!r}, id={self.id!r})"


def size_of(message: Message) -> int:
    """About how many bytes a message takes."""
    return len(message.subject) + len(message.reply) + len(message.head) + len(message.data)
