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
        self._plain = OriginTables(border, judge, full)
        self._by_way: dict[Way, OriginTables] = {}
        self._taking = self._plain

    @property
    def origin(self) -> str:
        """Whose messages are being sorted."""
        return self._taking.origin

    def take(self, origin: str, body: bytes, way: Way | None = None) -> None:
        """Sort the whole messages of a domain, or raise WireError, as a `LineTable` does."""
        self._taking = self._plain if way is None else self._of(way)
        self._taking.take(origin, body)

    def _of(self, way: Way) -> OriginTables:
        if way not in self._by_way:
            self._by_way[way] = OriginTables(self._border, partial(self._judge, way=way), self._full)
        return self._by_way[way]

    def book_requests(self, into: Tally) -> None:
        """Of those that were taken last, move the counts of lines that will not come again into the books."""
        self._taking.book_requests(into)

    def book(self, into: Tally) -> None:
        """Move all counts into the books."""
        for lines in (self._plain, *self._by_way.values()):
            lines.book(into)

    def forget(self, into: Tally) -> None:
        """What lines mean has changed: book their counts and judge them anew."""
        for lines in (self._plain, *self._by_way.values()):
            lines.forget(into)

    def forget_some(self, subjects: tuple[str, ...], into: Tally) -> None:
        """What lines of these subjects, or of subjects under these patterns, mean has changed."""
        for lines in (self._plain, *self._by_way.values()):
            lines.forget_some(subjects, into)
