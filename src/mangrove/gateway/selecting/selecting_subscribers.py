"""The domain's subscribers that select by headers, as its broker tells of them.

At the broker each of them is a queue group of its own (`mangrove.model.selectors.group_names`). The other
domains hear once of all that select the same; a message from there must name every one of them here.
"""

from __future__ import annotations

from typing import NamedTuple

from mangrove.model.patterns.trie import SubjectTrie
from mangrove.model.selectors.group_names import selector_in, told_group


class Told(NamedTuple):
    """What the other domains are to hear of a change."""

    group: str
    wanted: bool
    changed: bool
    """Whether it is news to them."""


class SelectingSubscribers:
    """Who selects, on which subjects.

    One that the broker does not tell of any more, because it was away, is still named until the broker is
    lost the next time: nobody minds a group that has no member, and whoever was only not told of yet would
    miss messages.
    """

    def __init__(self, domain: str) -> None:
        self._domain = domain
        self._there: dict[tuple[str, str], set[str]] = {}
        """By subject and the group that is told of: the groups that the broker tells of."""
        self._named: SubjectTrie[str] = SubjectTrie()
        self._pairs: dict[tuple[str, str], bool] = {}
        """All that are named, by subject and group, and whether the broker tells of them."""

    def __len__(self) -> int:
        return len(self._pairs)

    def told_as(self, group: str) -> str:
        """How the other domains know what a group here selects; any other group as itself."""
        return group if selector_in(group) is None else told_group(self._domain, group)

    def change(self, subject: str, group: str, wanted: bool) -> Told | None:
        """A group came or went; None if it is an ordinary one."""
        if selector_in(group) is None:
            return None
        told = told_group(self._domain, group)
        key = subject, told
        there = self._there.setdefault(key, set())
        before = bool(there)
        if wanted:
            there.add(group)
            self._pairs[subject, group] = True
            self._named.add(subject, group)
        else:
            there.discard(group)
            self._forget(subject, group)
        if not there:
            del self._there[key]
        return Told(told, bool(there), before != bool(there))

    def named(self, subject: str) -> tuple[str, ...]:
        """The groups that messages on a literal subject must name."""
        return tuple(sorted(self._named.match(subject))) if self._pairs else ()

    def lost(self) -> None:
        """The broker is away, and will tell anew who is there."""
        for pair in [pair for pair, there in self._pairs.items() if not there]:
            self._forget(*pair)
        self._pairs = dict.fromkeys(self._pairs, False)
        self._there.clear()

    def _forget(self, subject: str, group: str) -> None:
        if self._pairs.pop((subject, group), None) is not None:
            self._named.remove(subject, group)
