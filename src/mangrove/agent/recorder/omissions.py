"""What could not be recorded, added up, so that it can be told once in a while instead of every second."""

from __future__ import annotations

from collections import Counter

TELL_EVERY_S = 60.0


class Omissions:
    """Counts of what was left out since it was last told: sums of what flows, peaks of what stays.

    What was not told for a minute is told at once, with all else; the kinds of omissions are few.
    """

    def __init__(self) -> None:
        self._sums: Counter[str] = Counter()
        self._peaks: dict[str, int] = {}
        self._told_at: dict[str, float] = {}

    def add(self, what: str, count: int) -> None:
        """So many more were left out."""
        if count:
            self._sums[what] += count

    def level(self, what: str, count: int) -> None:
        """So many are left out at present."""
        if count:
            self._peaks[what] = max(count, self._peaks.get(what, 0))

    def tell(self, now: float, *, at_once: bool = False) -> str:
        """All that was left out, in words, if it is time to tell it; else an empty string."""
        left_out = {**self._sums, **self._peaks}
        recently = now - TELL_EVERY_S
        if not at_once and all(self._told_at.get(what, recently) > recently for what in left_out):
            return ""
        self._sums.clear()
        self._peaks.clear()
        self._told_at |= dict.fromkeys(left_out, now)
        return "; ".join(f"{count} {what}" for what, count in sorted(left_out.items()))
