"""Frames without a way on. Bounded in bytes."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from mangrove.overlay.protocol.frames import Frame, FrameType


@dataclass(frozen=True, slots=True)
class _Parked:
    frame: Frame
    since: float
    until: float


class ParkedFrames:
    """Frames for destinations that cannot be reached at the moment."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._parked: deque[_Parked] = deque()
        self._bytes = 0

    @property
    def held_bytes(self) -> int:
        """Bytes that wait."""
        return self._bytes

    def park(self, frame: Frame, now: float, until: float) -> list[Frame]:
        """Keep a frame until a time; returns the oldest frames, if they had to make room."""
        self._parked.append(_Parked(frame, now, until))
        self._bytes += len(frame.body)
        displaced = []
        while self._bytes > self._limit_bytes and self._parked:
            displaced.append(self._pop().frame)
        return displaced

    def _pop(self) -> _Parked:
        parked = self._parked.popleft()
        self._bytes -= len(parked.frame.body)
        return parked

    def release(self, now: float) -> list[Frame]:
        """Give up all frames, older by the time they waited: there may be a way again."""
        frames = [parked.frame.older(now - parked.since) for parked in self._parked]
        self._parked.clear()
        self._bytes = 0
        return frames

    def release_jobs(self, now: float) -> list[Frame]:
        """Give up the frames that name queue groups: another domain may have members now."""
        if not any(parked.frame.type is FrameType.JOBS for parked in self._parked):
            return []
        others = deque(parked for parked in self._parked if parked.frame.type is not FrameType.JOBS)
        jobs = [parked for parked in self._parked if parked.frame.type is FrameType.JOBS]
        self._parked = others
        self._bytes = sum(len(parked.frame.body) for parked in others)
        return [parked.frame.older(now - parked.since) for parked in jobs]

    def expired(self, now: float) -> list[Frame]:
        """Take out the frames whose time is up."""
        late = [parked.frame for parked in self._parked if now >= parked.until]
        if late:
            self._parked = deque(parked for parked in self._parked if now < parked.until)
            self._bytes = sum(len(parked.frame.body) for parked in self._parked)
        return late

    def problems(self) -> list[str]:
        """Invariants that do not hold."""
        held = sum(len(parked.frame.body) for parked in self._parked)
        return [] if held == self._bytes else [f"{held} bytes are parked, {self._bytes} are counted"]

    def timer(self) -> float | None:
        """When the next frame expires."""
        return min((parked.until for parked in self._parked), default=None)
