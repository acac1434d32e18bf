"""Known lines of messages that come in, apart for those that are to be transformed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from mangrove.gateway.access.origin_tables import OriginTables
from mangrove.gateway.mediation.mediation import Way
from mangrove.gateway.tally import Tally
from mangrove.overlay.forwarding.border import Border
from mangrove.overlay.protocol.bodies import Entry


class Judge(Protocol):
    """Who says what a line means."""

    def __call__(self, origin: str, line: bytes, way: Way | None = None) -> Entry:
        """Of a message from an origin; with a `way`, before it is transformed."""


class WayTables:
    """The tables of messages that pass as they are, and those of each way through a transform."""

    def __init__(self, border: Border | None, judge: Judge, full: Callable[[], None]) -> None:
        self._border = border
        self._judge = judge
        self._full = full
        self.plain = OriginTables(border, judge, full)
        """Of messages that pass as they are."""
        self._by_way: dict[Way, OriginTables] = {}

    def of(self, way: Way) -> OriginTables:
        """Those of messages that go this way."""
        if way not in self._by_way:
            self._by_way[way] = OriginTables(self._border, partial(self._judge, way=way), self._full)
        return self._by_way[way]

    def book(self, into: Tally) -> None:
        """Move all counts into the books."""
        for lines in (self.plain, *self._by_way.values()):
            lines.book(into)

    def forget(self, into: Tally) -> None:
        """What lines mean has changed: book their counts and judge them anew."""
        for lines in (self.plain, *self._by_way.values()):
            lines.forget(into)

    def forget_some(self, subjects: tuple[str, ...], into: Tally) -> None:
        """What lines of these subjects, or of subjects under these patterns, mean has changed."""
        for lines in (self.plain, *self._by_way.values()):
            lines.forget_some(subjects, into)
