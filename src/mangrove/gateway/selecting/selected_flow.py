"""The flow of lines on a subject of which some domains want only what their subscribers select."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from mangrove.broker.message_heads import decode_head
from mangrove.model.selectors.selector import Selector
from mangrove.overlay.protocol.bodies import CRLF, Flow, Message


class SelectedWay(NamedTuple):
    """To domains that select the same."""

    flow: Flow
    selectors: tuple[Selector, ...]
    """None: they want everything."""
    domains: int
    """How many they are."""

    def takes(self, headers: Mapping[str, str]) -> bool:
        """Whether somebody there wants a message with these headers."""
        return not self.selectors or any(selector.wants(headers) for selector in self.selectors)


class SelectedFlow:
    """Hands on to each way what somebody there wants, in order.

    It belongs to one line, so all messages are equally long. A message without headers is like all others
    without: so those lines are judged once.
    """

    __slots__ = ("_book", "_head", "_head_end", "_length", "_verdict", "_ways")

    def __init__(
        self, line: bytes, message: Message, ways: Sequence[SelectedWay], book: Callable[[int, int], None]
    ) -> None:
        """`book` is told how many messages went on at all, and how many copies nobody at their end wants."""
        self._ways = tuple(ways)
        self._book = book
        self._length = len(line) + message.skip
        self._head = len(line) + len(CRLF)
        self._head_end = self._head + message.header_bytes
        self._verdict = [way.takes({}) for way in ways] if message.header_bytes < 0 else None

    def take(self, messages: bytes) -> None:
        """Take a run of messages apart, as far as it must be."""
        starts = range(0, len(messages), self._length)
        if self._verdict is not None:
            verdicts = [self._verdict] * len(starts)
        else:
            heads = (messages[start + self._head : start + self._head_end] for start in starts)
            verdicts = [[way.takes(headers) for way in self._ways] for headers in map(decode_head, heads)]
        kept_back = 0
        for number, way in enumerate(self._ways):
            chosen = [start for start, verdict in zip(starts, verdicts, strict=True) if verdict[number]]
            kept_back += (len(starts) - len(chosen)) * way.domains
            if len(chosen) == len(starts):
                way.flow.take(messages)
            elif chosen:
                way.flow.take(b"".join(messages[start : start + self._length] for start in chosen))
        self._book(sum(map(any, verdicts)), kept_back)
