"""What waits for a link, the most urgent first (laxity order, Harmony §3.3). Bounded in bytes and number.

A frame that its contract would drop as late is not sent at all. One that is late but still wanted stays ahead
of all that are less urgent. Frames of one flow leave in order, also when estimates of the rest
of the way change meanwhile.
"""

from __future__ import annotations

from typing import NamedTuple

from sortedcontainers import SortedList

from mangrove.overlay.links.overruns import Overruns
from mangrove.overlay.links.waits import Waits
from mangrove.overlay.protocol.frames import Frame, most_frames

NEVER_URGENT_S = 1e6
"""Rank of frames without a deadline: behind all that have one, however long they have waited."""
MIN_AGE_S = 100e-6
"""Shorter waits are not worth making a frame anew to tell."""

FOREVER = float("inf")
MAX_FLOWS = 4096


class _Waiting(NamedTuple):
    rank: float
    number: int  # among equals, first come first served
    frame: Frame
    since: float
    until: float
    budget_s: float
    measured: bool


class Taken(NamedTuple):
    """A frame whose turn has come, older by the time it waited, and how urgent it was."""

    frame: Frame
    rank: float


class LaxityQueue:
    """Frames ordered by the time at which they should leave; the least urgent go when there is no room."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._most_frames = most_frames(limit_bytes)
        self._waiting: SortedList[_Waiting] = SortedList()
        self._number = 0
        self._last: dict[tuple[int, int, int], tuple[int, float]] = {}
        """Sequence and rank of the last frame of each flow with a deadline."""
        self._expired: list[Frame] = []
        self.held_bytes = 0
        self.waits = Waits()
        self.overruns = Overruns()

    def __len__(self) -> int:
        return len(self._waiting)

    def push(
        self,
        frame: Frame,
        due: float | None,
        now: float,
        until: float = FOREVER,
        budget_s: float = FOREVER,
        measured: bool = True,
    ) -> list[Frame]:
        """Add a frame that should leave by `due`, is of no use after `until`, and may wait for `budget_s`.

        Returns the frames that had to go for lack of room. Waits of unknown classes are not `measured`.
        """
        self._number += 1
        rank = now + NEVER_URGENT_S if due is None else self._in_turn(frame, due)
        self._waiting.add(_Waiting(rank, self._number, frame, now, until, budget_s, measured))
        self.held_bytes += frame.weight_bytes
        displaced: list[Frame] = []
        while self._crowded and len(self._waiting) > 1:
            displaced.append(self._take(-1).frame)
        return displaced

    @property
    def _crowded(self) -> bool:
        return self.held_bytes > self._limit_bytes or len(self._waiting) > self._most_frames

    def _in_turn(self, frame: Frame, due: float) -> float:
        """The rank of a frame: not before that of an earlier one of its flow."""
        flow = (frame.origin, frame.epoch, frame.flow_id)
        last = self._last.get(flow)
        if last is not None:
            if frame.sequence <= last[0]:
                return due  # it was sent another way before, and those after it may have left already
            due = max(due, last[1])
        elif len(self._last) >= MAX_FLOWS:
            self._last.clear()
        self._last[flow] = (frame.sequence, due)
        return due

    def overtakes(self, rank: float) -> bool:
        """Whether a frame waits that is more urgent than one that has begun to leave."""
        return bool(self._waiting) and self._waiting[0].rank < rank

    def pop(self, now: float) -> Taken | None:
        """The most urgent frame that is still wanted, if there is any."""
        while self._waiting:
            first = self._take(0)
            waited = now - first.since
            if first.measured:
                self.waits.note(first.frame.topic_class, waited)
            if first.budget_s is not FOREVER:
                self.overruns.note(first.frame.topic_class, waited > first.budget_s)
            if first.until < now:
                self._expired.append(first.frame)
            else:
                return Taken(first.frame.older(waited) if waited > MIN_AGE_S else first.frame, first.rank)
        return None

    def _take(self, position: int) -> _Waiting:
        waiting = self._waiting.pop(position)
        self.held_bytes -= waiting.frame.weight_bytes
        return waiting

    def problems(self) -> list[str]:
        """Invariants that do not hold."""
        held = sum(waiting.frame.weight_bytes for waiting in self._waiting)
        found = [] if held == self.held_bytes else [f"{held} bytes wait, {self.held_bytes} are counted"]
        return found + self.overruns.problems()

    def take_expired(self) -> list[Frame]:
        """Frames whose turn came too late."""
        expired = self._expired
        if expired:
            self._expired = []
        return expired

    def drain(self, now: float) -> list[Frame]:
        """Give up everything that waits, the most urgent first, older by the time it waited."""
        frames = [waiting.frame.older(now - waiting.since) for waiting in self._waiting]
        self._waiting.clear()
        self._last.clear()
        self.held_bytes = 0
        return frames
