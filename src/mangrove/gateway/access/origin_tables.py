"""Known lines of messages that come in, apart for origins of which the rules do not say the same."""

from __future__ import annotations

from collections.abc import Callable

from mangrove.gateway.line_table import MAX_KNOWN_LINES, LineTable
from mangrove.gateway.tally import Tally
from mangrove.overlay.forwarding.border import Border
from mangrove.overlay.protocol.bodies import Entry

_OWN = -2
"""The class of what is of the own domain: no class of origins is negative but that of strangers, -1."""


class OriginTables:
    """One table where nothing is forbidden; else one for each class of origins.

    `judge` says what a line from an origin means, any of its class. All tables together know no more lines
    than one may.
    """

    def __init__(
        self, border: Border | None, judge: Callable[[str, bytes], Entry], full: Callable[[], None]
    ) -> None:
        self._border = border
        self._judge = judge
        self._full = full
        self._most_lines = MAX_KNOWN_LINES // (1 if border is None else max(1, border.classes))
        self._tables: dict[int, LineTable] = {}
        self.origin = ""
        """Whose messages are being sorted."""

    def take(self, origin: str, body: bytes) -> None:
        """Sort the whole messages of a domain, or raise WireError, as a `LineTable` does."""
        self.origin = origin
        number = 0 if self._border is None else self._border.class_of(origin) if origin else _OWN
        table = self._tables.get(number)
        if table is None:
            judge, full = self._judge, self._full
            table = self._tables[number] = LineTable(
                lambda line: judge(self.origin, line), full, self._most_lines
            )
        table.take(body)

    @property
    def known(self) -> dict[bytes, Entry]:
        """All lines that were judged already."""
        return {line: entry for table in self._tables.values() for line, entry in table.known.items()}

    def book_requests(self, into: Tally) -> None:
        """Move the counts of lines that will not come again into the books."""
        for table in self._tables.values():
            table.book_requests(into)

    def book(self, into: Tally) -> None:
        """Move all counts into the books."""
        for table in self._tables.values():
            table.book(into)

    def forget(self, into: Tally) -> None:
        """What lines mean has changed: book their counts and judge them anew."""
        for table in self._tables.values():
            table.forget(into)

    def forget_some(self, subjects: tuple[str, ...], into: Tally) -> None:
        """What lines of these subjects, or of subjects under these patterns, mean has changed."""
        for table in self._tables.values():
            table.forget_some(subjects, into)
