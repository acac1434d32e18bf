"""Leases that run out, at a cost that does not grow with their number."""

from __future__ import annotations

import heapq
import math


class LeaseWheel:
    """Leases of one length, kept in slots of time.

    To renew a lease is to note when; the slot that it was put in is not touched. When a slot is due its
    leases run out or are put in the slot of their renewal, so each is looked at once in its length.
    """

    def __init__(self, length_s: float, slots: int = 16) -> None:
        self._length_s = length_s
        self._slot_s = length_s / slots
        self._renewed: dict[str, float] = {}
        self._slots: dict[int, list[str]] = {}
        self._due: list[int] = []
        self._placed: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._renewed)

    def renew(self, name: str, now: float) -> None:
        """The lease lasts for its whole length from now on."""
        self._renewed[name] = now
        if name not in self._placed:
            self._put(name, now)

    def renewed_at(self, name: str) -> float:
        """When a lease was renewed last; long ago for one that is not held."""
        return self._renewed.get(name, -math.inf)

    def end(self, name: str) -> None:
        """The lease is given up."""
        self._renewed.pop(name, None)

    def timer(self) -> float:
        """When a lease may run out."""
        return (self._due[0] + 1) * self._slot_s if self._due else math.inf

    def expired(self, now: float, limit: int) -> list[str]:
        """Leases that have run out, so many at most; they are forgotten with this answer."""
        gone: list[str] = []
        while self._due and self.timer() <= now and len(gone) < limit:
            names = self._slots[self._due[0]]
            while names and len(gone) < limit:
                name = names.pop()
                del self._placed[name]
                renewed = self._renewed.get(name)
                if renewed is None:
                    continue
                if renewed + self._length_s <= now:
                    del self._renewed[name]
                    gone.append(name)
                else:
                    self._put(name, renewed)
            if not names:
                del self._slots[heapq.heappop(self._due)]
        return gone

    def _put(self, name: str, renewed: float) -> None:
        slot = math.floor((renewed + self._length_s) / self._slot_s)
        if slot not in self._slots:
            self._slots[slot] = []
            heapq.heappush(self._due, slot)
        self._slots[slot].append(name)
        self._placed[name] = slot
