"""The frames of one flow: what is due next, what is ahead of its turn, and over which ways they come.

What was dropped on its way is not waited for where that shows. Frames of a flow that take the same way stay
in order, so a gap that all ways in use have passed is one that nobody will fill; unless a way is new, since
the missing frames may be on the one before.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple, Protocol

from mangrove.overlay.delivery.kept_flows import FlowKey
from mangrove.overlay.protocol.frames import Frame

SETTLED_S = 1.0
"""A way on which frames came for so long, never so far apart, is in use; no hold is longer."""
PAUSE_S = 0.15
"""Shorter than a link that failed is away: what is missing after such a pause may be on a detour."""
ANYWHERE = -1
"""Next sequence of a flow of which no frame has come yet, though another flow may wait for it."""


class Holding(Protocol):
    """Says how long a frame may be held at most."""

    def hold_s(self, frame: Frame) -> float:
        """In seconds, from its arrival."""
        ...


class _Way:
    """One path of a flow, as told by the frames that came over it, duplicates too."""

    __slots__ = ("highest", "last", "since")

    def __init__(self, sequence: int, now: float) -> None:
        self.highest = sequence
        self.since = self.last = now


class Held(NamedTuple):
    """A frame that waits, from when until when."""

    frame: Frame
    since: float
    until: float


class OrderedFlow:
    """What is due next, what is ahead of its turn, and who in other flows waits for this one."""

    __slots__ = ("_due", "_order", "held", "key", "next", "waiters", "ways")

    def __init__(self, key: FlowKey) -> None:
        self.key = key
        self.next = ANYWHERE
        self.held: dict[int, Held] = {}
        self._order: list[int] = []
        """A heap of what is held, and of some that is no more."""
        self._due: float | None = None
        self.ways: dict[int, _Way] = {}
        self.waiters: dict[FlowKey, OrderedFlow] = {}

    def join(self, frame: Frame) -> None:
        """The first frame came: its flow is joined at the beginning if that may still be on its way."""
        self.next = min(1, frame.sequence) if frame.begun_lately else frame.sequence

    def saw(self, frame: Frame, now: float) -> None:
        """A frame came, perhaps again."""
        way = self.ways.get(frame.way)
        if way is None:
            self.ways = {each: way for each, way in self.ways.items() if way.last >= now - SETTLED_S}
            self.ways[frame.way] = _Way(frame.sequence, now)
            return
        pause = now - way.last
        skipped = frame.sequence > way.highest + 1
        if pause >= SETTLED_S or (skipped and (pause >= PAUSE_S or self.next > way.highest + 1)):
            way.since = now  # new again: frames have gone another way in between, or may have
        way.last = now
        if frame.sequence > way.highest:
            way.highest = frame.sequence

    def keep(self, held: Held) -> None:
        """A frame must wait."""
        sequence = held.frame.sequence
        self.held[sequence] = held
        heappush(self._order, sequence)
        if self._due is not None and held.until < self._due:
            self._due = held.until

    def prolong(self, patience: Holding, now: float) -> None:
        """Ask once more how long frames may be held whose time is up: more may be known by now.

        Then the others are asked about, too, so that not all are gone through again for each of them.
        """
        known_more = False
        for sequence, held in self.held.items():
            if held.until <= now:
                until = held.since + patience.hold_s(held.frame)
                self.held[sequence] = held._replace(until=until)
                known_more |= until > now
        for sequence, held in self.held.items() if known_more else ():
            until = held.since + patience.hold_s(held.frame)
            if held.until < until:
                self.held[sequence] = held._replace(until=until)
        self._due = None

    def take(self, sequence: int) -> Held:
        """A frame need not wait any more."""
        self._due = None
        held = self.held.pop(sequence)
        while self._order and self._order[0] not in self.held:
            heappop(self._order)
        return held

    @property
    def first_held(self) -> int:
        """The lowest sequence that waits; asked again and again while a gap lasts."""
        return self._order[0]

    @property
    def due(self) -> float:
        """When the first of the frames has waited for long enough."""
        if self._due is None:
            self._due = min(held.until for held in self.held.values())
        return self._due

    def gap_is_certain(self, now: float) -> bool:
        """Whether what is missing before the first held frame was dropped, as far as can be seen here."""
        return all(
            way.since <= now - SETTLED_S and way.highest >= self.first_held
            for way in self.ways.values()
            if way.last >= now - SETTLED_S
        )
