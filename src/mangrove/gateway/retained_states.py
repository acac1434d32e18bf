"""What is known of retained messages, subject by subject, and the figures by which domains compare it.

There may be very many, and each domain tells its figures every few seconds: they are added up once, and
follow each change. What one domain may have here is bounded, and so is what is remembered of messages that
were taken back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec

MAX_OF_DOMAIN = 200_000
MAX_TAKEN_BACK = 10_000


class State(msgspec.Struct, frozen=True):
    """What is known of a subject."""

    origin: str
    version: int
    digest: int  # 0: taken back


class RetainedStates:
    """By subject."""

    def __init__(self, counts: Callable[[str, str], bool]) -> None:
        """`counts` says whether a subject's message may go to a domain, or to others at all."""
        self._counts = counts
        self._states: dict[str, State] = {}
        self._taken_back: dict[str, None] = {}
        """The one that was taken back first is forgotten first."""
        self._of_origin: Counter[str] = Counter()
        self._figures: dict[tuple[str, str], tuple[int, int]] = {}
        """By origin and the domain that they are for."""

    def __len__(self) -> int:
        return len(self._states)

    def get(self, subject: str) -> State | None:
        """What is known of a subject."""
        return self._states.get(subject)

    def room_for(self, origin: str) -> bool:
        """Whether another message of a domain may be kept."""
        return self._of_origin[origin] < MAX_OF_DOMAIN

    def there_from(self, origin: str) -> list[str]:
        """The subjects that a domain has a message for."""
        return [name for name, each in self._states.items() if each.origin == origin and each.digest]

    def put(self, subject: str, state: State) -> None:
        """Something else is known now."""
        before = self._states.get(subject)
        if before is not None:
            self._count(subject, before, -1)
        self._states[subject] = state
        self._taken_back.pop(subject, None)
        self._count(subject, state, 1)
        if not state.digest:
            self._taken_back[subject] = None
            if len(self._taken_back) > MAX_TAKEN_BACK:
                oldest = next(iter(self._taken_back))
                del self._taken_back[oldest], self._states[oldest]

    def clear(self) -> None:
        """Nothing is known any more."""
        self._states.clear()
        self._taken_back.clear()
        self._of_origin.clear()
        self._figures.clear()

    def count_anew(self) -> None:
        """Other subjects count from now on."""
        self._figures.clear()

    def figures(self, origin: str, to: str = "") -> tuple[int, int]:
        """How many subjects a domain has a message for that may go to another, and a digest of them all."""
        found = self._figures.get((origin, to))
        if found is None:
            count = digest = 0
            for subject, state in self._states.items():
                if state.origin == origin and state.digest and self._counts(subject, to):
                    count += 1
                    digest ^= state.digest
            found = self._figures[origin, to] = (count, digest)
        return found

    def _count(self, subject: str, state: State, change: int) -> None:
        if not state.digest:
            return
        self._of_origin[state.origin] += change
        for key, (count, digest) in self._figures.items():
            if key[0] == state.origin and self._counts(subject, key[1]):
                self._figures[key] = (count + change, digest ^ state.digest)
