"""What a connection said last on mirrored subjects, to be said again: bounded in age, bytes and messages."""

from __future__ import annotations

from collections import Counter, deque
from itertools import islice
from typing import NamedTuple

WINDOW_NS = 2_000_000_000
MAX_BYTES = 8 << 20
MAX_MESSAGES = 1 << 14
MESSAGE_BYTES = 200
"""What a message takes beside its payload, about."""


class Said(NamedTuple):
    """A message: with a head of its own, or with the two numbers of the usual one."""

    at_ns: int
    subject: str
    payload: bytes
    first: int
    head: bytes = b""


class Window:
    """The last messages, the oldest first. What leaves it sooner than by age is counted by reason."""

    def __init__(self) -> None:
        self._said: deque[Said] = deque()
        self._size_bytes = 0
        self._left = 0
        """Messages that are kept no longer."""
        self.shortened: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._said)

    @property
    def first(self) -> int:
        """The number of the oldest message; they are counted from the beginning."""
        return self._left

    def some(self, start: int, many: int) -> list[Said]:
        """So many of the messages from number `start` on, or as many as there are."""
        begin = max(0, start - self._left)
        return list(islice(self._said, begin, begin + many))

    def keep(self, said: Said) -> None:
        """Keep a message; the oldest give way."""
        kept = self._said
        kept.append(said)
        size_bytes = self._size_bytes + len(said.payload) + MESSAGE_BYTES
        oldest_ns = said.at_ns - WINDOW_NS
        while kept[0].at_ns < oldest_ns:
            size_bytes -= len(kept.popleft().payload) + MESSAGE_BYTES
            self._left += 1
        while size_bytes > MAX_BYTES or len(kept) > MAX_MESSAGES:
            self.shortened["bytes" if size_bytes > MAX_BYTES else "messages"] += 1
            self._left += 1
            size_bytes -= len(kept.popleft().payload) + MESSAGE_BYTES
        self._size_bytes = size_bytes

    def forget_older(self, now_ns: int) -> None:
        """Nothing is kept for long when nothing more is said."""
        while self._said and self._said[0].at_ns < now_ns - WINDOW_NS:
            self._size_bytes -= len(self._said.popleft().payload) + MESSAGE_BYTES
            self._left += 1
