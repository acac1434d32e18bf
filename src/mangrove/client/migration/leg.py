"""What has come through one of the two brokers of a hand-over, in order, with the markers between it."""

from __future__ import annotations

from bisect import bisect_left
from enum import StrEnum

Key = str | bytes
"""What a message is recognised by: a text is unique, bytes are a digest that other messages may share."""


class Origin(StrEnum):
    """Where a marker is published, and so which messages it keeps its place among on both legs."""

    HEAD = "head"
    OLD = "old"
    NEW = "new"


class Leg:
    """One leg: where each message and each marker came in its order."""

    def __init__(self) -> None:
        self.count = 0
        """Messages so far."""
        self.positions: dict[Key, list[int]] = {}
        self._markers: dict[int, dict[Origin, int]] = {}
        self._highest: dict[Origin, int] = {}

    def take(self, key: Key) -> None:
        """A message has come."""
        self.positions.setdefault(key, []).append(self.count)
        self.count += 1

    def mark(self, origin: Origin, number: int) -> None:
        """A marker has come. One that comes twice counts where it came first."""
        self._markers.setdefault(number, {}).setdefault(origin, self.count)
        self._highest[origin] = max(number, self._highest.get(origin, 0))

    def times(self, key: Key) -> int:
        """How often a message has come."""
        return len(self.positions.get(key, ()))

    def highest(self, origin: Origin) -> int:
        """The highest number of the markers of an origin; 0 if none has come."""
        return self._highest.get(origin, 0)

    def places(self, number: int) -> dict[Origin, int]:
        """Before which message the markers of a number came, by origin."""
        return self._markers.get(number, {})

    def times_before(self, key: Key, place: int) -> int:
        """How often a message came before a place."""
        return bisect_left(self.positions.get(key, ()), place)
