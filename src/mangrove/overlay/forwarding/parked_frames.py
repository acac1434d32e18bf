"""Frames without a way on, bounded in bytes and number. What is asked often costs nothing for each frame."""

from __future__ import annotations

import heapq
from collections import OrderedDict

import msgspec

from mangrove.overlay.protocol.frames import Frame, FrameType, most_frames


class _Parked(msgspec.Struct, frozen=True):
    frame: Frame
    since: float
    until: float

    def older(self, now: float) -> Frame:
        """The frame, older by the time it waited."""
        return self.frame.older(now - self.since)


class ParkedFrames:
    """Frames for destinations that cannot be reached at the moment."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._most_frames = most_frames(limit_bytes)
        self._parked: OrderedDict[int, _Parked] = OrderedDict()
        """By number, in the order in which they came."""
        self._jobs: dict[int, None] = {}
        """Those that name queue groups."""
        self._ends: list[tuple[float, int]] = []
        """A heap of times and numbers; also of frames that are gone."""
        self._last = 0
        self._bytes = 0

    @property
    def held_bytes(self) -> int:
        """Bytes that wait."""
        return self._bytes

    def park(self, frame: Frame, now: float, until: float) -> list[Frame]:
        """Keep a frame until a time; returns the oldest frames, if they had to make room."""
        self._last += 1
        self._parked[self._last] = _Parked(frame, now, until)
        if frame.type is FrameType.JOBS:
            self._jobs[self._last] = None
        heapq.heappush(self._ends, (until, self._last))
        self._bytes += frame.weight_bytes
        displaced = []
        while self._parked and (self._bytes > self._limit_bytes or len(self._parked) > self._most_frames):
            displaced.append(self._take(next(iter(self._parked))).frame)
        self._trim()
        return displaced

    def _take(self, number: int) -> _Parked:
        parked = self._parked.pop(number)
        self._jobs.pop(number, None)
        self._bytes -= parked.frame.weight_bytes
        return parked

    def _trim(self) -> None:
        """Forget the ends of frames that are gone, so that the first one is of a frame that waits."""
        while self._ends and self._ends[0][1] not in self._parked:
            heapq.heappop(self._ends)
        if len(self._ends) > 2 * len(self._parked) + 16:
            self._ends = [(parked.until, number) for number, parked in self._parked.items()]
            heapq.heapify(self._ends)

    def release(self, now: float) -> list[Frame]:
        """Give up all frames, older by the time they waited: there may be a way again."""
        frames = [parked.older(now) for parked in self._parked.values()]
        self._parked.clear()
        self._jobs.clear()
        self._ends.clear()
        self._bytes = 0
        return frames

    def release_jobs(self, now: float) -> list[Frame]:
        """Give up the frames that name queue groups: another domain may have members now."""
        frames = [self._take(number).older(now) for number in list(self._jobs)]
        self._trim()
        return frames

    def expired(self, now: float) -> list[Frame]:
        """Take out the frames whose time is up."""
        late: dict[int, Frame] = {}
        while self._ends and self._ends[0][0] <= now:
            number = heapq.heappop(self._ends)[1]
            late[number] = self._take(number).frame
            self._trim()
        return [late[number] for number in sorted(late)]

    def problems(self) -> list[str]:
        """Invariants that do not hold."""
        found = []
        held = sum(parked.frame.weight_bytes for parked in self._parked.values())
        if held != self._bytes:
            found.append(f"{held} bytes are parked, {self._bytes} are counted")
        jobs = {number for number, each in self._parked.items() if each.frame.type is FrameType.JOBS}
        if jobs != self._jobs.keys():
            found.append("the parked frames that name queue groups were miscounted")
        if self.timer() != min((parked.until for parked in self._parked.values()), default=None):
            found.append("a parked frame does not expire in time")
        return found

    def timer(self) -> float | None:
        """When the next frame expires."""
        return self._ends[0][0] if self._ends else None
