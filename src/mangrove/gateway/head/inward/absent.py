"""Messages that only subscribers want who went with their broker and may come back: they wait, boundedly."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from mangrove.gateway.head.inward.queue import FROM_HERE, Waiting
from mangrove.gateway.mediation.manner import AS_IT_IS
from mangrove.overlay.forwarding.flows import HOP_LIMIT


class ForAbsent:
    """The flow of such messages: keeps them in their order until somebody is back, the newest if too many."""

    def __init__(self, limit_bytes: int, dropped: Callable[[bytes], None]) -> None:
        self._limit_bytes = limit_bytes
        self._dropped = dropped
        self._kept: deque[Waiting] = deque()
        self._kept_bytes = 0
        self.hop_limit = HOP_LIMIT
        """What the frame had left whose messages are being taken."""
        self.origin = FROM_HERE
        """Where it came from."""
        self.manner = AS_IT_IS
        """How it comes in."""

    def __bool__(self) -> bool:
        return bool(self._kept)

    def take(self, messages: bytes) -> None:
        """Keep a run of messages."""
        self._kept.append((messages, self.hop_limit, self.origin, self.manner))
        self._kept_bytes += len(messages)
        while self._kept_bytes > self._limit_bytes:
            oldest, *_ = self._kept.popleft()
            self._kept_bytes -= len(oldest)
            self._dropped(oldest)

    def take_out(self) -> list[Waiting]:
        """Give up all that is kept."""
        kept = list(self._kept)
        self._kept.clear()
        self._kept_bytes = 0
        return kept
