"""What waits for the head broker: bounded in bytes, the oldest dropped first and counted."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class OutQueue:
    """Passes buffers straight to a writer while it can take them, and holds them while it cannot.

    The bound counts what is held here; the socket's own buffer is bounded by its high-water mark.
    """

    def __init__(self, limit_bytes: int, dropped: Callable[[bytes], None]) -> None:
        self._limit_bytes = limit_bytes
        self._dropped = dropped
        self._write: Callable[[bytes], None] | None = None
        self._held: deque[bytes] = deque()
        self.held_bytes = 0

    def send(self, messages: bytes) -> None:
        """Write now, or when the socket can take it."""
        if self._write is not None:
            self._write(messages)
            return
        self._held.append(messages)
        self.held_bytes += len(messages)
        while self.held_bytes > self._limit_bytes:
            self._dropped(self._pop())

    def _pop(self) -> bytes:
        messages = self._held.popleft()
        self.held_bytes -= len(messages)
        return messages

    def open(self, write: Callable[[bytes], None]) -> None:
        """The socket can take more: let out what waited."""
        self._write = write
        while self._held and self._write is not None:
            write(self._pop())

    def shut(self) -> None:
        """The socket is full or gone."""
        self._write = None
