"""Which differences between two agents are looked into, and how often the same one."""

from __future__ import annotations

REPAIRS_A_DIGEST = 16
"""Sources that are compared bucket by bucket for one digest of a neighbour."""
FIRST_PAUSE_S = 5.0
LONGEST_PAUSE_S = 640.0

Difference = tuple[int, int]
"""Hashes of what one agent and the other know of a source."""


class Repairs:
    """Every difference gets its turn; one that stays the same however often all is told gets it ever less.

    So it does when the neighbour does not believe what it is told, or has no room for it.
    """

    def __init__(self) -> None:
        self._last: dict[str, str] = {}
        """The source that was last compared, by neighbour."""
        self._told: dict[tuple[str, str], tuple[Difference, float, float]] = {}
        """By neighbour and source: the difference, when it is looked into again, and the pause after that."""

    def choose(self, peer: str, differing: list[str]) -> list[str]:
        """The sources to compare now, of those that differ."""
        last = self._last.get(peer, "")
        ordered = sorted(differing)
        turn = [name for name in ordered if name > last] + [name for name in ordered if name <= last]
        chosen = turn[:REPAIRS_A_DIGEST]
        if chosen:
            self._last[peer] = chosen[-1]
        return chosen

    def worth_telling(self, peer: str, source: str, difference: Difference, now: float) -> bool:
        """Whether a neighbour is told again what it knows differently."""
        before, not_until, pause = self._told.get((peer, source), ((0, 0), now, FIRST_PAUSE_S))
        if difference != before:
            not_until, pause = now, FIRST_PAUSE_S
        if now < not_until:
            return False
        self._told[peer, source] = (difference, now + pause, min(2 * pause, LONGEST_PAUSE_S))
        return True

    def forget(self, peer: str) -> None:
        """A neighbour is not there any more, or knows nothing of before."""
        self._told = {key: value for key, value in self._told.items() if key[0] != peer}
