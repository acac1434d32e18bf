"""Data on its way to one neighbour: first it waits its turn, then it is sent, at last it is acknowledged.

The shell pulls frames while its socket takes them, so that the order is decided as late as possible. All that
the neighbour has not acknowledged is kept; when the link fails, it goes another way.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from mangrove.overlay.links.laxity_queue import FOREVER, LaxityQueue
from mangrove.overlay.links.management import ManagementLine
from mangrove.overlay.links.overruns import Persistence
from mangrove.overlay.links.throughput import MBIT_BYTES, Throughput
from mangrove.overlay.protocol.frames import MAX_BODY_BYTES, Frame, most_frames
from mangrove.overlay.protocol.pieces import MANAGEMENT_STREAM, MAX_STREAMS, Cutting, LinkRate

MAX_STREAM = MANAGEMENT_STREAM - 1

MAX_UNACKNOWLEDGED_BYTES = 1 << 20
"""A neighbour acknowledges at the latest after so much, or after a quarter of what the queue may hold."""


def acknowledge_after_bytes(limit_bytes: int) -> int:
    """How much a neighbour may take in before it acknowledges without waiting for its next heartbeat."""
    return min(MAX_UNACKNOWLEDGED_BYTES, limit_bytes // 4)


class _Sent(NamedTuple):
    frame: Frame
    at: float


class Outgoing:
    """The frames for one neighbour. What waits is bounded, and so is what is unacknowledged."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._most_frames = most_frames(limit_bytes)
        self.waiting = LaxityQueue(limit_bytes)
        self._sent: deque[_Sent] = deque()
        self._sent_bytes = 0
        self._acknowledged = 0
        self._cutting: list[Cutting] = []
        """Large frames that have begun to leave; each but the last was overtaken by the next."""
        self._streams = 0
        self._rate = LinkRate()
        self._overruns: list[Persistence] = []
        self._throughput = Throughput()
        self.management = ManagementLine()

    @property
    def used_mbps(self) -> float:
        """What leaves for the link."""
        return self._throughput.mbps

    @property
    def limit_mbps(self) -> float:
        """The most that the link was seen to take; 0 while it was never too slow."""
        return (self._rate.bytes_per_s or 0.0) / MBIT_BYTES

    @property
    def rate_bytes_s(self) -> float | None:
        """The most that the link was seen to take; None while it was never too slow."""
        return self._rate.bytes_per_s

    @property
    def backlogged(self) -> bool:
        """Whether there is anything to pull."""
        return bool(self._data_waits or self.management.waiting_bytes)

    @property
    def _data_waits(self) -> bool:
        return bool(self.waiting or self._cutting)

    @property
    def unacknowledged(self) -> int:
        """How many frames are under way."""
        return len(self._sent)

    def push(
        self,
        frame: Frame,
        due: float | None,
        now: float,
        until: float = FOREVER,
        budget_s: float = FOREVER,
        measured: bool = True,
    ) -> list[Frame]:
        """A frame joins those that wait; returns those that had to go for lack of room."""
        return self.waiting.push(frame, due, now, until, budget_s, measured)

    def pull(self, now: float) -> Frame | None:
        """The frame to send now: management in its turn, or the most urgent data.

        None if there is none, or too much is unacknowledged; that is no reason for management to wait.
        """
        management = self.management
        if not management.waiting_bytes:
            return self._pull_data(now)
        if not management.turn(self._data_waits):
            frame = self._pull_data(now)
            if frame is not None:
                management.data_went(len(frame.body))
                return frame
        frame = management.pull(self._rate.piece_bytes, now)
        self._took(len(frame.body))
        return frame

    def _pull_data(self, now: float) -> Frame | None:
        if self._sent_bytes >= self._limit_bytes or len(self._sent) >= self._most_frames:
            return None
        if not self._data_waits:
            self._rate.idle()
            return None
        cutting = self._cutting[-1] if self._cutting else None
        if cutting is None or (len(self._cutting) < MAX_STREAMS and self.waiting.overtakes(cutting.rank)):
            taken = self.waiting.pop(now)
            if taken is not None:
                if len(taken.frame.body) <= 2 * self._rate.piece_bytes:
                    return self._leave(taken.frame, taken.frame, now)
                self._streams = self._streams % MAX_STREAM + 1
                cutting = Cutting(taken.frame, taken.rank, self._streams, now)
                self._cutting.append(cutting)
        if cutting is None:
            self._rate.idle()
            return None
        return self._go_on(cutting, now)

    def _go_on(self, cutting: Cutting, now: float) -> Frame:
        piece, last = cutting.cut(int(min(self._rate.piece_bytes, MAX_BODY_BYTES)), now)
        if last:
            self._cutting.pop()
            return self._leave(piece, cutting.whole(now), now)
        self._took(len(piece.body))
        return piece

    def _leave(self, frame: Frame, whole: Frame, now: float) -> Frame:
        """A frame has left as a whole: from now on it is kept until it is acknowledged."""
        self._sent.append(_Sent(whole, now))
        self._sent_bytes += whole.weight_bytes
        self._took(len(frame.body))
        return frame

    def _took(self, size_bytes: int) -> None:
        self._rate.took(size_bytes)
        self._throughput.took(size_bytes)

    def settle(self, now: float) -> None:
        """A heartbeat is due: take stock of how long frames wait and how fast the link takes them."""
        self.waiting.waits.settle()
        self._overruns += self.waiting.overruns.settle(now)
        self._rate.settle(self.backlogged, now)
        self._throughput.settle(now)

    def take_overruns(self) -> list[Persistence]:
        """Topic classes that have begun or ceased to overrun their budget here since the last call."""
        changes, self._overruns = self._overruns, []
        return changes

    def acknowledge(self, received: int) -> None:
        """The neighbour has taken over so many frames since the connection was made."""
        while self._acknowledged < received and self._sent:
            self._sent_bytes -= self._sent.popleft().frame.weight_bytes
            self._acknowledged += 1

    def problems(self) -> list[str]:
        """Invariants that do not hold."""
        found = self.waiting.problems() + self.management.problems()
        sent = sum(each.frame.weight_bytes for each in self._sent)
        if sent != self._sent_bytes:
            found.append(f"{sent} bytes are unacknowledged, {self._sent_bytes} are counted")
        if len(self._cutting) > MAX_STREAMS:
            found.append(f"{len(self._cutting)} frames are being sent in pieces")
        return found

    def give_up_waiting(self, now: float) -> list[Frame]:
        """What has not begun to leave goes another way; what has is acknowledged, or the link is lost."""
        return self.waiting.drain(now)

    def restart(self, now: float) -> list[Frame]:
        """The connection is gone: give up what was not acknowledged or not sent; count from zero again."""
        frames = [sent.frame.older(now - sent.at) for sent in self._sent]
        frames += [cutting.whole(now) for cutting in self._cutting]
        frames += self.waiting.drain(now)
        self._sent.clear()
        self._cutting.clear()
        self.management.restart()
        self._rate = LinkRate()
        self._throughput = Throughput()
        self._sent_bytes = self._acknowledged = 0
        return frames
