"""First come, first read, in whole buffers; what waits longest is left out first, or nothing (`CutOff`)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from mangrove.client.message import Message
from mangrove.client.pending.waiting import NOTHING, nothing


class InOrder:
    """Buffers in the order in which they came. The bytes of a part of a buffer are its share of it."""

    def __init__(self, max_messages: int, max_bytes: int) -> None:
        self.max_messages = max_messages
        self.max_bytes = max_bytes
        self.messages = 0
        self.size_bytes = 0
        self.taken_in = 0
        self._batches: deque[tuple[list[Message], int]] = deque()
        self._in_hand: tuple[int, int] = (1, 0)
        """Messages and bytes of what was taken last."""
        self.take_back: Callable[[], list[Message]] = nothing

    def take(self) -> list[Message]:
        """See `Waiting`."""
        if not self._batches:
            return NOTHING
        messages, size_bytes = self._batches.popleft()
        self._in_hand = len(messages), size_bytes
        self.messages -= len(messages)
        self.size_bytes -= size_bytes
        return messages

    def _return(self) -> None:
        """What the reader has in hand waits again, in front."""
        messages = self.take_back()
        if messages:
            count, size_bytes = self._in_hand
            size_bytes = size_bytes * len(messages) // count
            self._batches.appendleft((messages, size_bytes))
            self.messages += len(messages)
            self.size_bytes += size_bytes

    @property
    def before_first(self) -> int:
        """See `Waiting`."""
        return self.taken_in - self.messages


class DropOldest(InOrder):
    """Leaves out what has waited longest."""

    def put(self, messages: list[Message], size_bytes: int) -> list[Message]:
        """See `Waiting`."""
        count = len(messages)
        self.messages += count
        self.size_bytes += size_bytes
        self.taken_in += count
        self._batches.append((messages, size_bytes))
        if self.messages <= self.max_messages and self.size_bytes <= self.max_bytes:
            return NOTHING
        return self._shrink()

    def _shrink(self) -> list[Message]:
        self._return()
        lost: list[Message] = []
        while self.messages > 1 and (self.messages > self.max_messages or self.size_bytes > self.max_bytes):
            messages, size_bytes = self._batches[0]
            by_size = -(-(self.size_bytes - self.max_bytes) * len(messages) // max(size_bytes, 1))
            excess = max(self.messages - self.max_messages, by_size, 1)
            excess = min(excess, len(messages), self.messages - 1)
            lost += messages[:excess]
            freed_bytes = size_bytes * excess // len(messages)
            if excess == len(messages):
                self._batches.popleft()
            else:
                self._batches[0] = messages[excess:], size_bytes - freed_bytes
            self.messages -= excess
            self.size_bytes -= freed_bytes
        return lost


class CutOff(InOrder):
    """Leaves out what there is no room for: the subscription ends there."""

    def put(self, messages: list[Message], size_bytes: int) -> list[Message]:
        """See `Waiting`."""
        kept = self._room_for(len(messages), size_bytes)
        if kept < len(messages):
            self._return()
            kept = self._room_for(len(messages), size_bytes)
        if kept:
            size_bytes = size_bytes * kept // len(messages)
            self._batches.append((messages[:kept], size_bytes))
            self.messages += kept
            self.size_bytes += size_bytes
            self.taken_in += kept
        return messages[kept:]

    def _room_for(self, count: int, size_bytes: int) -> int:
        by_size = (self.max_bytes - self.size_bytes) * count // max(size_bytes, 1)
        room = min(self.max_messages - self.messages, max(by_size, 0 if self.messages else 1))
        return max(min(count, room), 0)
