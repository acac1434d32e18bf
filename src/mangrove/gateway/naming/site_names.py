"""What a domain calls things otherwise than the federation does, as its gateway knows it at present.

Lines of messages are renamed when they are first judged, not message by message: the gateway's tables
remember what they mean. Names may change while messages pass (`naming.renaming`); then all is learnt anew.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from mangrove.model.names.domain_names import DomainNames
from mangrove.model.names.mapping import NameMapping
from mangrove.model.patterns.trie import SubjectTrie
from mangrove.model.topics import overlaps
from mangrove.overlay.protocol.bodies import Message


class SiteNames:
    """The names of one domain, and who is a member of which queue group under them."""

    def __init__(self, mappings: Iterable[NameMapping] = ()) -> None:
        """Without `mappings`, everything is called as in the federation."""
        self.names = DomainNames(mappings)
        self.knows_members = not self.plain
        """Whether it is kept who is a member of which group: only names of its own need that."""
        self._groups: dict[str, SubjectTrie[str]] = {}
        """By group, the local patterns of its members here."""

    @property
    def plain(self) -> bool:
        """Whether nothing is called otherwise."""
        return not self.names.mappings

    def change(self, mappings: Iterable[NameMapping]) -> None:
        """From now on, things are called so. Members are known before the first mapping."""
        self.names = DomainNames(mappings)
        self.knows_members = not self.plain
        if self.plain:
            self._groups.clear()

    def leaving(self, message: Message) -> Message | None:
        """A message from the broker in the federation's names; None if it has none there.

        A reply that has none is left as it is: who answers to it is refused.
        """
        if self.plain:
            return message
        subject = self.names.leaving(message.subject)
        if subject is None:
            return None
        if subject == message.subject and not message.reply:
            return message
        reply = message.reply and (self.names.leaving(message.reply) or message.reply)
        return replace(message, subject=subject, reply=reply)

    def entering(self, message: Message) -> Message | None:
        """A message from the federation in the domain's names; None if it has none here."""
        if self.plain:
            return message
        subject = self.names.entering(message.subject)
        return None if subject is None else replace(message, subject=subject)

    def at_broker(self, patterns: tuple[str, ...]) -> tuple[str, ...]:
        """What subjects and patterns are called at the broker."""
        if self.plain:
            return patterns
        return tuple(dict.fromkeys(each for pattern in patterns for each in self.names.called_here(pattern)))

    def served(self, subject: str, groups: tuple[str, ...]) -> tuple[str, ...]:
        """Those of some groups that have a member here for a subject by its local name.

        A wildcard that reaches over renamed names asks for more than it covers here.
        """
        if self.plain:
            return groups
        local = self.names.entering(subject)
        if local is None:
            return ()
        return tuple(group for group in groups if self._has_member(group, local))

    def _has_member(self, group: str, subject: str) -> bool:
        patterns = self._groups.get(group)
        return patterns is not None and bool(patterns.match(subject))

    def member(self, pattern: str, group: str, *, here: bool) -> None:
        """A local pattern has members of a group, or none any more."""
        if here:
            self._groups.setdefault(group, SubjectTrie()).add(pattern, pattern)
        elif (patterns := self._groups.get(group)) is not None:
            patterns.remove(pattern, pattern)
            if not patterns:
                del self._groups[group]  # who selects has a group of its own, and there is no end of them

    def reaches_over(self, pattern: str) -> bool:
        """Whether a local pattern is also a name of the federation for something that is renamed here."""
        return any(overlaps(each.federation, pattern) for each in self.names.mappings)

    def forget_members(self) -> None:
        """All is told anew."""
        self._groups.clear()
