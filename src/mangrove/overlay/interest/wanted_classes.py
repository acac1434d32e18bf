"""Which contracts have subscribers in which domains: counted, so that a change costs what the change is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, KeysView

from mangrove.model.access.pattern_index import PatternIndex
from mangrove.model.topics import Scope, overlaps
from mangrove.model.versions.rules_in_force import Rules
from mangrove.overlay.interest.interest_database import DomainInterest
from mangrove.overlay.interest.wants import subject_of


class WantedClasses:
    """How many wanted subjects of each domain fall under each contract that leaves its domain.

    Any of them may need explicit routes: some always, all of them while a region is endangered.
    """

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._matches = self._leaving()
        self._index = _indexed(self._matches)
        self._counts: Counter[tuple[int, str]] = Counter()
        self._changed = False

    def _leaving(self) -> list[tuple[int, str]]:
        return [
            (topic_class, contract.match)
            for topic_class, contract in self._rules.numbered()
            if contract.scope is not Scope.DOMAIN
        ]

    def keys(self) -> KeysView[tuple[int, str]]:
        """Contracts, by their classes, with the domains that have subscribers for them."""
        return self._counts.keys()

    def contracts_changed(self, wants: Iterable[tuple[str, str]]) -> None:
        """Other contracts hold: of all `wants` so far, by domain and subject, those under new ones count."""
        before = self._matches
        self._matches = self._leaving()
        gone, new = set(before) - set(self._matches), set(self._matches) - set(before)
        former = {topic_class for topic_class, _ in gone}
        for key in [key for key in self._counts if key[0] in former]:
            del self._counts[key]
        self._index = _indexed(self._matches)
        at = _indexed(new)
        for domain, subject in wants if new else ():
            for topic_class in at.overlapping(subject):
                self._counts[topic_class, domain] += 1
        self._changed = True

    def take_changed(self) -> bool:
        """Whether some contract gained its first or lost its last subscriber in a domain."""
        changed, self._changed = self._changed, False
        return changed

    def want(self, domain: str, subject: str) -> None:
        """A domain wants a subject."""
        for topic_class in self._index.overlapping(subject):
            self._counts[topic_class, domain] += 1
            self._changed |= self._counts[topic_class, domain] == 1

    def forget(self, domain: str, subject: str) -> None:
        """A domain no longer wants a subject."""
        for topic_class in self._index.overlapping(subject):
            self._counts[topic_class, domain] -= 1
            if not self._counts[topic_class, domain]:
                del self._counts[topic_class, domain]
                self._changed = True

    def forget_domain(self, domain: str) -> None:
        """A domain wants nothing any more."""
        for key in [key for key in self._counts if key[1] == domain]:
            del self._counts[key]
            self._changed = True

    def counted_anew(self, domains: Iterable[tuple[str, DomainInterest]]) -> set[tuple[int, str]]:
        """What `keys` must be, from everything that is known."""
        return {
            (topic_class, domain)
            for domain, interest in domains
            for topic_class, match in self._matches
            if any(overlaps(match, subject_of(wanted)) for wanted in interest.subjects)
        }


def _indexed(matches: Iterable[tuple[int, str]]) -> PatternIndex[int]:
    """Classes by their patterns: of thousands of contracts, few are about one subject."""
    index: PatternIndex[int] = PatternIndex()
    for topic_class, match in matches:
        index.add(match, topic_class)
    return index
