"""De-duplication of frames by (origin, epoch, sequence)."""

from __future__ import annotations

from enum import Enum

WINDOW = 1 << 16


class Verdict(Enum):
    """What a frame's name says about it."""

    NEW = "new"
    DUPLICATE = "duplicate"
    STALE_EPOCH = "stale epoch"
    TOO_OLD = "too old"


class _Origin:
    __slots__ = ("epoch", "highest", "seen")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.highest = 0
        self.seen: set[int] = set()


class SeenFrames:
    """Remembers the last WINDOW sequence numbers of each origin; a restarted origin starts afresh.

    Memory is bounded by 2 × WINDOW numbers for each origin. A sequence below the window cannot be told from
    a duplicate and is refused as too old.
    """

    def __init__(self, window: int = WINDOW) -> None:
        self._window = window
        self._origins: dict[int, _Origin] = {}

    def check(self, origin: int, epoch: int, sequence: int) -> Verdict:
        """Judge a frame and remember it if it is new."""
        state = self._origins.get(origin)
        if state is None or epoch > state.epoch:
            state = self._origins[origin] = _Origin(epoch)
        elif epoch < state.epoch:
            return Verdict.STALE_EPOCH
        if sequence in state.seen:
            return Verdict.DUPLICATE
        if sequence <= state.highest - self._window:
            return Verdict.TOO_OLD
        state.seen.add(sequence)
        state.highest = max(state.highest, sequence)
        if len(state.seen) > 2 * self._window:
            floor = state.highest - self._window
            state.seen = {kept for kept in state.seen if kept > floor}
        return Verdict.NEW
