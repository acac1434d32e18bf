"""Which contracts have subscribers in which domains: counted, so that a change costs what the change is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, KeysView

from mangrove.model.topics import Scope, TopicRules, overlaps
from mangrove.overlay.interest.interest_database import DomainInterest
from mangrove.overlay.interest.wants import subject_of


class WantedClasses:
    """How many wanted subjects of each domain fall under each contract that leaves its domain.

    Any of them may need explicit routes: some always, all of them while a region is endangered.
    """

    def __init__(self, rules: TopicRules) -> None:
        self._matches = [
            (position, contract.match)
            for position, contract in enumerate(rules.contracts)
            if contract.scope is not Scope.DOMAIN
        ]
        self._counts: Counter[tuple[int, str]] = Counter()
        self._changed = False

    def keys(self) -> KeysView[tuple[int, str]]:
        """Contracts, by position, with the domains that have subscribers for them."""
        return self._counts.keys()

    def take_changed(self) -> bool:
        """Whether some contract gained its first or lost its last subscriber in a domain."""
        changed, self._changed = self._changed, False
        return changed

    def want(self, domain: str, subject: str) -> None:
        """A domain wants a subject."""
        for position, match in self._matches:
            if overlaps(match, subject):
                self._counts[position, domain] += 1
                self._changed |= self._counts[position, domain] == 1

    def forget(self, domain: str, subject: str) -> None:
        """A domain no longer wants a subject."""
        for position, match in self._matches:
            if overlaps(match, subject):
                self._counts[position, domain] -= 1
                if not self._counts[position, domain]:
                    del self._counts[position, domain]
                    self._changed = True

    def counted_anew(self, domains: Iterable[tuple[str, DomainInterest]]) -> set[tuple[int, str]]:
        """What `keys` must be, from everything that is known."""
        return {
            (position, domain)
            for domain, interest in domains
            for position, match in self._matches
            if any(overlaps(match, subject_of(wanted)) for wanted in interest.subjects)
        }
