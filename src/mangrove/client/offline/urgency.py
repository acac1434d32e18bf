"""How urgent a subject is, by the deadline of its contract."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from mangrove.model.congestion.terms import TopicTerms
from mangrove.model.patterns.trie import SubjectTrie

DROP = "drop"


class Urgency(NamedTuple):
    """Subjects that are equally urgent. The smallest is the most urgent."""

    deadline_s: float = math.inf
    drop_late: bool = False

    def late(self, age_s: float) -> bool:
        """Whether a message of this age is not worth sending any more."""
        return self.drop_late and age_s > self.deadline_s


NOT_URGENT = Urgency()


class Urgencies:
    """Of all subjects: the first of the terms that matches governs a subject."""

    def __init__(self, terms: Iterable[TopicTerms] = ()) -> None:
        self._terms = tuple(terms)
        self._positions: SubjectTrie[int] = SubjectTrie()
        for position, each in enumerate(self._terms):
            self._positions.add(each.match, position)
        self.of = lru_cache(maxsize=1 << 14)(self._of)
        """The urgency of a subject."""

    def _of(self, subject: str) -> Urgency:
        position = min(self._positions.match(subject), default=None)
        if position is None:
            return NOT_URGENT
        terms = self._terms[position]
        if terms.deadline_ms is None or not 0 < terms.deadline_ms < math.inf:
            return NOT_URGENT
        return Urgency(terms.deadline_ms / 1e3, terms.late == DROP)
