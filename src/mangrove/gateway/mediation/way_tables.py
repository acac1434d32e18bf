"""Known lines of messages that come in, apart for those that are to be transformed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from mangrove.gateway.access.origin_tables import OriginTables
from mangrove.gateway.mediation.manner import AS_IT_IS, Manner
from mangrove.gateway.tally import Tally
from mangrove.overlay.forwarding.border import Border
from mangrove.overlay.protocol.bodies import Entry


class Judge(Protocol):
    """Who says what a line means."""

    def __call__(self, origin: str, line: bytes, manner: Manner = AS_IT_IS) -> Entry:
        """Of a message from an origin that comes in this manner: before it is transformed, if it is."""


class WayTables:
    """The tables of messages that pass as they are, and those of each other manner to come in."""

    def __init__(self, border: Border | None, judge: Judge, full: Callable[[], None]) -> None:
        self._border = border
        self._judge = judge
        self._full = full
        self.plain = OriginTables(border, judge, full)
        """Of messages that pass as they are."""
        self._by_manner: dict[Manner, OriginTables] = {}

    def of(self, manner: Manner) -> OriginTables:
        """Those of messages that come in this manner."""
        if manner is AS_IT_IS:
            return self.plain
        if manner not in self._by_manner:
            judge = partial(self._judge, manner=manner)
            self._by_manner[manner] = OriginTables(self._border, judge, self._full)
        return self._by_manner[manner]

    def renew(self, border: Border | None) -> None:
        """Other rules of access may hold, and other transforms. All counts have been booked before."""
        self._by_manner.clear()
        if border is not self._border:
            self._border = border
            self.plain = OriginTables(border, self._judge, self._full)

    def book(self, into: Tally) -> None:
        """Move all counts into the books."""
        for lines in (self.plain, *self._by_manner.values()):
            lines.book(into)

    def forget(self, into: Tally) -> None:
        """What lines mean has changed: book their counts and judge them anew."""
        for lines in (self.plain, *self._by_manner.values()):
            lines.forget(into)

    def forget_some(self, subjects: tuple[str, ...], into: Tally) -> None:
        """What lines of these subjects, or of subjects under these patterns, mean has changed."""
        for lines in (self.plain, *self._by_manner.values()):
            lines.forget_some(subjects, into)
