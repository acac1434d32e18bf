"""De-duplication of frames by (origin, epoch, flow id, sequence).

Sequences are judged flow by flow, because frames of one flow stay nearly in order, while an urgent flow may
overtake another by any distance.
"""

from __future__ import annotations

from enum import Enum

from mangrove.overlay.delivery.kept_flows import KeptFlows
from mangrove.overlay.protocol.frames import Name

WINDOW = 1 << 16
MAX_FLOWS = 1 << 12


class Verdict(Enum):
    """What a frame's name says about it."""

    NEW = "new"
    DUPLICATE = "duplicate"
    TOO_OLD = "too old"


class SeenSequences:
    """The last sequence numbers of a flow, one bit each, in a ring."""

    __slots__ = ("_bits", "_highest", "_window")

    def __init__(self, window: int) -> None:
        self._window = window
        self._bits = bytearray(window // 8)
        self._highest = -1

    def check(self, sequence: int) -> Verdict:
        """Judge a sequence number and remember it if it is new."""
        if sequence <= self._highest - self._window:
            return Verdict.TOO_OLD
        if sequence > self._highest:
            self._advance(sequence)
        place, bit = sequence % self._window >> 3, 1 << (sequence & 7)
        if self._bits[place] & bit:
            return Verdict.DUPLICATE
        self._bits[place] |= bit
        return Verdict.NEW

    def _advance(self, sequence: int) -> None:
        """The window moves on: what falls out of it is forgotten."""
        passed, self._highest = self._highest + 1, sequence
        if sequence - passed + 1 >= self._window:
            self._bits = bytearray(self._window // 8)
            return
        while passed <= sequence:
            place = passed % self._window >> 3
            if passed & 7 or passed + 7 > sequence:
                self._bits[place] &= ~(1 << (passed & 7))
                passed += 1
            else:  # byte by byte as far as the ring goes on: sequences may jump by nearly the whole window
                whole = min((sequence + 1 - passed) >> 3, len(self._bits) - place)
                self._bits[place : place + whole] = bytes(whole)
                passed += 8 * whole


class SeenFrames:
    """Remembers the last WINDOW sequence numbers of each flow, of as many flows as are kept (`kept_flows`).

    One below the window cannot be told from a duplicate, and is refused as too old. Memory is bounded by
    one bit for each.
    """

    def __init__(self, window: int = WINDOW, flows: int = MAX_FLOWS) -> None:
        self._window = window
        self._flows: KeptFlows[SeenSequences] = KeptFlows(flows)

    def check(self, name: Name) -> Verdict:
        """Judge a frame and remember it if it is new."""
        key = name[:3]
        flow = self._flows.use(key)
        if flow is None:
            flow = SeenSequences(self._window)
            self._flows.add(key, flow)
        return flow.check(name.sequence)
