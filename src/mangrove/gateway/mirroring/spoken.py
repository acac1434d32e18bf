"""What was delivered last on topics whose second copies are only made when somebody misses the first."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

KEPT_S = 2.0
KEPT_BYTES = 8 << 20


class LastSpoken:
    """Runs of messages with their line, as they are written to a mirror; the oldest go first."""

    def __init__(self, kept_s: float = KEPT_S, kept_bytes: int = KEPT_BYTES) -> None:
        self._kept_s = kept_s
        self._kept_bytes = kept_bytes
        self._runs: deque[tuple[float, str, bytes]] = deque()
        self._bytes = 0

    def keep(self, subject: str, messages: bytes, now: float) -> None:
        """Messages were handed to the head broker."""
        self._runs.append((now, subject, messages))
        self._bytes += len(messages)
        self.forget(now)

    def forget(self, now: float) -> None:
        """What is too old, or too much, is not said again."""
        runs = self._runs
        while runs and (self._bytes > self._kept_bytes or runs[0][0] < now - self._kept_s):
            self._bytes -= len(runs.popleft()[2])

    def runs(self) -> Iterator[tuple[str, bytes]]:
        """Subjects and messages, the oldest first."""
        for _, subject, messages in self._runs:
            yield subject, messages
