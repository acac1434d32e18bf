"""Data on its way to one neighbour: first it waits its turn, then it is sent, at last it is acknowledged.

The shell pulls frames while its socket takes them, so that the order is decided as late as possible. All that
the neighbour has not acknowledged is kept; when the link fails, it goes another way.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from mangrove.overlay.frames import Frame
from mangrove.overlay.laxity_queue import FOREVER, LaxityQueue

MOST_UNACKNOWLEDGED_BYTES = 1 << 20
"""A neighbour acknowledges at the latest after so much, or after a quarter of what the queue may hold."""


def acknowledge_after_bytes(limit_bytes: int) -> int:
    """How much a neighbour may take in before it acknowledges without waiting for its next heartbeat."""
    return min(MOST_UNACKNOWLEDGED_BYTES, limit_bytes // 4)


class _Sent(NamedTuple):
    frame: Frame
    at: float


class Outgoing:
    """The frames for one neighbour. What waits is bounded, and so is what is unacknowledged."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self.waiting = LaxityQueue(limit_bytes)
        self._sent: deque[_Sent] = deque()
        self._sent_bytes = 0
        self._acknowledged = 0

    @property
    def unacknowledged(self) -> int:
        """How many frames are under way."""
        return len(self._sent)

    def push(self, frame: Frame, due: float | None, now: float, until: float = FOREVER) -> list[Frame]:
        """A frame joins those that wait; returns those that had to go for lack of room."""
        return self.waiting.push(frame, due, now, until)

    def pull(self, now: float) -> Frame | None:
        """The frame to send now. None if there is none, or too much is unacknowledged."""
        if self._sent_bytes >= self._limit_bytes:
            return None
        frame = self.waiting.pop(now)
        if frame is None:
            return None
        self._sent.append(_Sent(frame, now))
        self._sent_bytes += len(frame.body)
        return frame

    def acknowledge(self, received: int) -> None:
        """The neighbour has taken over so many frames since the connection was made."""
        while self._acknowledged < received and self._sent:
            self._sent_bytes -= len(self._sent.popleft().frame.body)
            self._acknowledged += 1

    def restart(self, now: float) -> list[Frame]:
        """The connection is gone: give up what was not acknowledged or not sent; count from zero again."""
        frames = [sent.frame.older(now - sent.at) for sent in self._sent] + self.waiting.drain(now)
        self._sent.clear()
        self._sent_bytes = self._acknowledged = 0
        return frames
