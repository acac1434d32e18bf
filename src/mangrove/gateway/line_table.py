"""Control lines of the body format that were judged already, with what they mean and how often they came."""

from __future__ import annotations

from collections.abc import Callable

from mangrove.gateway.tally import Tally
from mangrove.model.subjects import covers
from mangrove.overlay.protocol.bodies import Entry, WireError, scan

MAX_KNOWN_LINES = 1 << 16
MAX_COMPARISONS = 1 << 12
"""How many subjects are compared with patterns one by one, before it is easier to forget everything."""


class LineTable:
    """Sorts messages into flows: each distinct line is judged once, and its messages are only counted.

    `judge` says what a line means; it must have no side effect, because a message that was incomplete is
    judged again. `full` is called when there are too many lines, and must end in `forget`.
    """

    def __init__(
        self, judge: Callable[[bytes], Entry], full: Callable[[], None], most_lines: int = MAX_KNOWN_LINES
    ) -> None:
        self._judge = judge
        self._full = full
        self._most_lines = most_lines
        self._once: list[Entry] = []
        self._lines_of: dict[bytes, list[bytes]] = {}
        """The known lines of each subject."""
        self.known: dict[bytes, Entry] = {}

    def resolve(self, line: bytes) -> Entry:
        """What a line means that is not known."""
        entry = self._judge(line)
        if entry.once:
            if entry.booked:
                self._once.append(entry)
            return entry
        if len(self.known) >= self._most_lines:
            self._full()
        self.known[line] = entry
        self._lines_of.setdefault(line.split(b" ", 2)[1], []).append(line)
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
        self._lines_of.clear()

    def forget_some(self, subjects: tuple[str, ...], into: Tally) -> None:
        """What lines of these subjects, or of subjects under these patterns, mean has changed."""
        if not self.known:
            return
        patterns = [subject for subject in subjects if "*" in subject or ">" in subject]
        if len(patterns) * len(self._lines_of) > MAX_COMPARISONS:
            self.forget(into)
            return
        found = [name for subject in subjects if (name := subject.encode()) in self._lines_of]
        for pattern in patterns:
            found += [name for name in self._lines_of if covers(pattern, name.decode(errors="replace"))]
        for name in dict.fromkeys(found):
            for line in self._lines_of.pop(name):
                entry = self.known.pop(line)
                if entry.count and entry.topic:
                    into.add(entry.topic, entry.count)
