"""What waits for a link, the most urgent first (laxity order, Harmony §3.3). Bounded in bytes."""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field

from mangrove.overlay.frames import Frame


@dataclass(frozen=True, slots=True, order=True)
class _Waiting:
    due: float
    number: int  # among equals, first come first served
    frame: Frame = field(compare=False)
    since: float = field(compare=False)


class LaxityQueue:
    """Frames ordered by the time at which they should leave; the least urgent go when there is no room."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._waiting: list[_Waiting] = []  # most urgent last, so that taking it costs nothing
        self._number = 0
        self.held_bytes = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def push(self, frame: Frame, due: float, now: float) -> list[Frame]:
        """Add a frame; returns the frames that had to go for lack of room."""
        self._number += 1
        insort(self._waiting, _Waiting(due, self._number, frame, now), key=lambda w: (-w.due, -w.number))
        self.held_bytes += len(frame.body)
        displaced: list[Frame] = []
        while self.held_bytes > self._limit_bytes and len(self._waiting) > 1:
            least = self._waiting.pop(0)
            self.held_bytes -= len(least.frame.body)
            displaced.append(least.frame)
        return displaced

    def pop(self, now: float) -> Frame:
        """The most urgent frame, older by the time it waited."""
        waiting = self._waiting.pop()
        self.held_bytes -= len(waiting.frame.body)
        return waiting.frame.older(now - waiting.since)

    def clear(self) -> None:
        """Forget everything."""
        self._waiting.clear()
        self.held_bytes = 0
