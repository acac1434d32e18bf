"""Running totals → what happened since the last look, across restarts of whoever counts."""

from __future__ import annotations

from collections.abc import Hashable

ROUNDS_TO_FORGET = 600


class Counters:
    """Remembers totals. A total that fell was reset: all of it is new."""

    def __init__(self) -> None:
        self._last: dict[Hashable, int] = {}
        self._touched: set[Hashable] = set()
        self._rounds = 0
        self._begun = False
        self.resets = 0

    def since(self, key: Hashable, total: int) -> int:
        """The increase since the last call; nothing at the first, because nobody knows since when."""
        self._touched.add(key)
        last = self._last.get(key)
        self._last[key] = total
        if last is None:
            return 0
        if total < last:
            self.resets += 1
            return total
        return total - last

    def since_known(self, key: Hashable, total: int) -> int:
        """The same for a counter that starts at zero when it first appears.

        In the first round everything appears for the first time, whatever its age: nothing counts yet.
        """
        if key not in self._last and self._begun:
            self._last[key] = 0
        return self.since(key, total)

    def sweep(self) -> None:
        """Called once a round; now and then drops totals of what is no longer there."""
        self._begun = True
        self._rounds += 1
        if self._rounds >= ROUNDS_TO_FORGET:
            self._last = {key: total for key, total in self._last.items() if key in self._touched}
            self._touched.clear()
            self._rounds = 0
