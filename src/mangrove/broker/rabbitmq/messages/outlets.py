"""Flows by which messages reach the subscribers of a RabbitMQ: bodies of frames become AMQP's frames.

All messages with one control line have one size, so what stands before their payloads is made once.
"""

from __future__ import annotations

from collections.abc import Callable

from mangrove.broker.rabbitmq.messages.properties import PropertyWriter
from mangrove.broker.rabbitmq.messages.publisher import Publisher
from mangrove.broker.rabbitmq.wire import frames
from mangrove.overlay.protocol.bodies import Message

CHANNEL = 1
HEAD_TOO_LARGE = "headers larger than a frame, which AMQP cannot carry"
Undelivered = Callable[[str, int, str], None]
"""Told why messages are not published, how many, and on which subject."""


class PlainOutlet:
    """Messages without headers."""

    __slots__ = ("_after", "_before", "_frame_max", "_length", "_line", "_publisher")

    def __init__(
        self, publisher: Publisher, line: bytes, message: Message, before: bytes, frame_max: int
    ) -> None:
        """`before` is the method frame and the header frame."""
        self._publisher = publisher
        self._line = len(line) + 2
        self._length = len(line) + message.skip
        size = message.size_bytes
        self._frame_max = frame_max
        whole = 0 < size <= frame_max - frames.FRAME_EXTRA
        self._before = before + frames.FRAME_HEAD.pack(frames.BODY, CHANNEL, size) if whole else before
        self._after = frames.END if whole else b""

    def take(self, messages: bytes) -> None:
        """Publish a run of messages."""
        line, length, before, after = self._line, self._length, self._before, self._after
        starts = range(0, len(messages), length)
        if after:
            made = [before + messages[start + line : start + length - 2] + after for start in starts]
        else:
            bodies = [messages[start + line : start + length - 2] for start in starts]
            made = [before + frames.body_frames(CHANNEL, body, self._frame_max) for body in bodies]
        self._publisher.publish(made)


class HeadOutlet:
    """Messages with headers, whose properties differ from one to the next."""

    __slots__ = (
        "_correlation",
        "_frame_max",
        "_groups",
        "_head",
        "_length",
        "_line",
        "_method",
        "_publisher",
        "_reply_to",
        "_subject",
        "_undelivered",
        "_writer",
    )

    def __init__(
        self,
        publisher: Publisher,
        writer: PropertyWriter,
        line: bytes,
        message: Message,
        method: bytes,
        frame_max: int,
        undelivered: Undelivered,
        *,
        reply_to: str = "",
        correlation_id: str = "",
        groups: tuple[str, ...] = (),
    ) -> None:
        """`method` is the method frame. `undelivered` is told of headers for which a broker would hang up."""
        self._publisher = publisher
        self._writer = writer
        self._line = len(line) + 2
        self._length = len(line) + message.skip
        self._head = max(message.header_bytes, 0)
        self._method = method
        self._subject = message.subject
        self._frame_max = frame_max
        self._undelivered = undelivered
        self._reply_to = reply_to
        self._correlation = correlation_id
        self._groups = groups

    def take(self, messages: bytes) -> None:
        """Publish a run of messages."""
        made = []
        for start in range(0, len(messages), self._length):
            begin, end = start + self._line, start + self._length - 2
            properties = self._writer.properties(
                messages[begin : begin + self._head],
                reply_to=self._reply_to,
                correlation_id=self._correlation,
                groups=self._groups,
            )
            body = messages[begin + self._head : end]
            content_head = frames.content_head(CHANNEL, len(body), properties)
            if len(content_head) > self._frame_max:
                self._undelivered(HEAD_TOO_LARGE, 1, self._subject)
                continue
            made.append(self._method + content_head + frames.body_frames(CHANNEL, body, self._frame_max))
        self._publisher.publish(made)


class NowhereOutlet:
    """Messages that AMQP cannot carry: they are counted."""

    __slots__ = ("_length", "_reason", "_subject", "_undelivered")

    def __init__(self, line: bytes, message: Message, reason: str, undelivered: Undelivered) -> None:
        self._subject = message.subject
        self._length = len(line) + message.skip
        self._reason = reason
        self._undelivered = undelivered

    def take(self, messages: bytes) -> None:
        """Count them."""
        self._undelivered(self._reason, len(messages) // self._length, self._subject)
