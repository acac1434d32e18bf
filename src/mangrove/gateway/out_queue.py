"""What waits for a socket: bounded in bytes, the oldest dropped first and counted."""

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
        self._write: Callable[[list[bytes]], None] | None = None
        self._held: deque[tuple[bytes, bytes]] = deque()
        self.held_bytes = 0

    def send(self, head: bytes, body: bytes) -> None:
        """Write `head` and `body` in one go, now or when the socket can take them."""
        if self._write is not None:
            self._write([head, body] if head else [body])
            return
        self._held.append((head, body))
        self.held_bytes += len(head) + len(body)
        while self.held_bytes > self._limit_bytes:
            old_head, old_body = self._held.popleft()
            self.held_bytes -= len(old_head) + len(old_body)
            self._dropped(old_body)

    def open(self, write: Callable[[list[bytes]], None]) -> None:
        """The socket can take more: let out what waited."""
        self._write = write
        while self._held and self._write is not None:
            head, body = self._held.popleft()
            self.held_bytes -= len(head) + len(body)
            write([head, body] if head else [body])

    def shut(self) -> None:
        """The socket is full or gone."""
        self._write = None
