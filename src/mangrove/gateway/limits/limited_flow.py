"""Flows of lines whose subject has a limit: each publisher's messages pass as far as a gate lets them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from time import monotonic
from typing import Protocol

from mangrove.broker.message_ids import ID_END, common_origin, origin_at
from mangrove.overlay.protocol.bodies import CRLF, Flow, Message

MIN_COMPARED = 16
"""Messages of a run that are compared with each other, rather than looked at one by one."""


class Gate(Protocol):
    """Decides how much passes, and books what does not."""

    def admit(self, origin: bytes, messages: int, size_bytes: int, now: float) -> int:
        """How many of a publisher's messages, of this size of payload each, pass.

        The origin is empty for all publishers whose messages have no id of an SDK.
        """


class LimitedFlow:
    """Hands on what a gate lets pass, in order. It belongs to one line, so all messages are equally long."""

    __slots__ = ("_flow", "_gate", "_head", "_identified", "_length", "_passed", "_payload")

    def __init__(
        self, line: bytes, message: Message, flow: Flow, gate: Gate, passed: Callable[[int], None]
    ) -> None:
        """`passed` is told how many messages went on."""
        self._flow = flow
        self._gate = gate
        self._passed = passed
        self._length = len(line) + message.skip
        self._head = len(line) + len(CRLF)
        self._identified = message.header_bytes >= ID_END
        self._payload = message.size_bytes - max(message.header_bytes, 0)

    def take(self, messages: bytes) -> None:
        """Let a run of messages pass, as far as it may."""
        now, length = monotonic(), self._length
        count = len(messages) // length
        if not self._identified:
            self._hand_on(messages, self._gate.admit(b"", count, self._payload, now))
            return
        if count >= MIN_COMPARED and (only := common_origin(messages, self._head, length, count)):
            self._hand_on(messages, self._gate.admit(only, count, self._payload, now))
            return
        origins = [origin_at(messages, head) for head in range(self._head, len(messages), length)]
        offered = Counter(origins)
        left = {
            origin: self._gate.admit(origin, number, self._payload, now) for origin, number in offered.items()
        }
        if left == offered:
            self._hand_on(messages, count)
            return
        passing: list[bytes] = []
        for place, origin in enumerate(origins):
            if left[origin]:
                left[origin] -= 1
                passing.append(messages[place * length : (place + 1) * length])
        self._hand_on(b"".join(passing), len(passing))

    def _hand_on(self, messages: bytes, count: int) -> None:
        """The first messages of a run go on."""
        if not count:
            return
        self._passed(count)
        size = count * self._length
        self._flow.take(messages if size == len(messages) else messages[:size])
