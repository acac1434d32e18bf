"""When a sample was taken, by our own clock.

An answer that was long on its way, or waited until we had time to read it, was taken at some moment since the
question: which one, the broker's own clock tells. It is believed only within these bounds, so that one that
jumps does no harm.
"""

from __future__ import annotations

from datetime import datetime


class SampleClock:
    """Follows the difference between a broker's clock and ours from one sample to the next."""

    def __init__(self) -> None:
        self._last: tuple[float, datetime] | None = None

    def taken_at(self, asked: float, heard: float, theirs: datetime | None) -> float:
        """The moment between `asked` and `heard` at which the broker's clock showed `theirs`."""
        if theirs is None:
            self._last = None
            return heard
        if self._last is None or (theirs.tzinfo is None) != (self._last[1].tzinfo is None):
            guess = (asked + heard) / 2
        else:
            ours, before = self._last
            guess = ours + (theirs - before).total_seconds()
        taken = min(max(guess, asked), heard)
        self._last = (taken, theirs)
        return taken
