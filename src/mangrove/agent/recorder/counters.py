"""Running totals → what happened since the last look, across restarts of whoever counts."""

from __future__ import annotations

from collections.abc import Hashable


class Counters:
    """Remembers totals of the federation's own parts (brokers, links), so their number is bounded by it.

    A total that fell was reset: all of it is new.
    """

    def __init__(self) -> None:
        self._last: dict[Hashable, int] = {}
        self.resets = 0

    def since(self, key: Hashable, total: int) -> int:
        """The increase since the last call; nothing at the first, because nobody knows since when."""
        last = self._last.get(key)
        self._last[key] = total
        if last is None:
            return 0
        if total < last:
            self.resets += 1
            return total
        return total - last
