"""Interest on its way to one neighbour.

Small changes are sent like any control message, ahead of all data. What is large (a storm of subscriptions, a
snapshot) waits here and is pulled like data, and has half of the bytes while data waits: so heartbeats never
queue behind it in the socket. What a slow link cannot take is not kept: a snapshot takes its place.
"""

from __future__ import annotations

from collections import deque

from mangrove.overlay.interest.snapshots import Snapshot
from mangrove.overlay.protocol.control_messages import InterestUpdate, control_frame
from mangrove.overlay.protocol.frames import Frame

SMALL_BYTES = 4096
MAX_WAITING = 512


class InterestOutbox:
    """Updates and snapshots that wait for one neighbour, in the order in which they must arrive."""

    def __init__(self) -> None:
        self._waiting: deque[Frame] = deque()
        self._snapshots: dict[str, Snapshot] = {}
        self._too_late: dict[str, None] = {}
        """Domains of which an update did not fit in."""
        self._owed_bytes = 0
        """How much data goes before interest may go again."""

    @property
    def waits(self) -> bool:
        """Whether there is something to pull."""
        return bool(self._waiting or self._snapshots or self._too_late)

    def offer(self, update: InterestUpdate, frame: Frame) -> bool:
        """Whether a frame can be sent at once; if not, it waits here."""
        if not self.waits and len(frame.body) <= SMALL_BYTES:
            return True
        if update.origin in self._too_late:
            return False
        if len(self._waiting) < MAX_WAITING:
            self._waiting.append(frame)
        else:
            self._too_late[update.origin] = None
        return False

    def tell(self, snapshot: Snapshot) -> None:
        """Send a snapshot, unless the same one is under way. What follows it waits behind it."""
        under_way = self._snapshots.get(snapshot.domain)
        if under_way is None or under_way.stamp != snapshot.stamp:
            self._snapshots[snapshot.domain] = snapshot

    def overdue(self) -> str | None:
        """A domain of which the neighbour needs a snapshot now, because updates of it were not kept."""
        if self._waiting or not self._too_late:
            return None
        domain = next(iter(self._too_late))
        del self._too_late[domain]
        self._snapshots.pop(domain, None)
        return domain

    def turn(self, data_waits: bool) -> bool:
        """Whether interest, which waits, goes next; if data waits too, both get half of the bytes."""
        return not (data_waits and self._owed_bytes > 0)

    def data_went(self, size_bytes: int) -> None:
        """Data was sent."""
        self._owed_bytes = max(0, self._owed_bytes - size_bytes)

    def pull(self) -> Frame | None:
        """The next frame."""
        frame: Frame | None = None
        if self._snapshots:
            domain, snapshot = next(iter(self._snapshots.items()))
            frame = control_frame(snapshot.next_part())
            if snapshot.done:
                del self._snapshots[domain]
        elif self._waiting:
            frame = self._waiting.popleft()
        self._owed_bytes = len(frame.body) if frame is not None and self.waits else 0
        return frame

    def clear(self) -> None:
        """The connection is gone; digests will be compared on the next one."""
        self._waiting.clear()
        self._snapshots.clear()
        self._too_late.clear()
