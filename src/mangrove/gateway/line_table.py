"""Control lines of the body format that were judged already, with what they mean and how often they came."""

from __future__ import annotations

from collections.abc import Callable

from mangrove.gateway.tally import Tally
from mangrove.overlay.protocol.bodies import Entry, WireError, scan

MAX_KNOWN_LINES = 1 << 16


class LineTable:
    """Sorts messages into flows: each distinct line is judged once, and its messages are only counted.

    `judge` says what a line means; it must have no side effect, because a message that was incomplete is
    judged again. `full` is called when there are too many lines, and must end in `forget`.
    """

    def __init__(self, judge: Callable[[bytes], Entry], full: Callable[[], None]) -> None:
        self._judge = judge
        self._full = full
        self._once: list[Entry] = []
        self.known: dict[bytes, Entry] = {}

    def resolve(self, line: bytes) -> Entry:
        """What a line means that is not known."""
        entry = self._judge(line)
        if entry.once:
            self._once.append(entry)
            return entry
        if len(self.known) >= MAX_KNOWN_LINES:
            self._full()
        self.known[line] = entry
        return entry

    def take(self, body: bytes) -> None:
        """Sort whole messages, or raise WireError; what came before the error has been sorted."""
        if scan(body, self.known, self.resolve) != len(body):
            raise WireError("the last message is cut off")

    def book_requests(self, into: Tally) -> None:
        """Move the counts of lines that will not come again into the books."""
        if self._once:
            into.requests += sum(entry.count for entry in self._once)
            self._once.clear()

    def book(self, into: Tally) -> None:
        """Move all counts into the books."""
        self.book_requests(into)
        for entry in self.known.values():
            if entry.count and entry.topic:
                into.add(entry.topic, entry.count)
                entry.count = 0

    def forget(self, into: Tally) -> None:
        """What lines mean has changed: book their counts and judge them anew."""
        self.book(into)
        self.known.clear()
