"""Stands between a gateway and its head broker where a domain has names of its own.

Towards the broker all names are the domain's, towards the gateway the federation's. Interest is counted:
several local patterns may ask for one pattern of the federation, and the other way round. Lines of messages
are renamed when they are first judged, not message by message: the gateway's tables remember what they mean.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from mangrove.broker.attachment import Attachment, AttachmentOwner, Sorter
from mangrove.model.names.domain_names import DomainNames
from mangrove.model.names.mapping import NameMapping
from mangrove.model.patterns.trie import SubjectTrie
from mangrove.model.selectors.group_names import selector_in
from mangrove.model.topics import overlaps
from mangrove.overlay.protocol.bodies import DISCARD, Flow, Message, Rewrite


class SiteNames:
    """The names of one domain, and who is a member of which queue group under them."""

    def __init__(self, mappings: Iterable[NameMapping]) -> None:
        self.names = DomainNames(mappings)
        self._groups: dict[str, SubjectTrie[str]] = {}
        """By group, the local patterns of its members here."""

    def attach(self, attach: Callable[[AttachmentOwner], Attachment], owner: AttachmentOwner) -> Attachment:
        """An attachment that speaks the federation's names with its owner."""
        return RenamedAttachment(self, attach, owner)

    def leaving(self, message: Message) -> Message | None:
        """A message from the broker in the federation's names; None if it has none there.

        A reply that has none is left as it is: who answers to it is refused.
        """
        subject = self.names.leaving(message.subject)
        if subject is None:
            return None
        if subject == message.subject and not message.reply:
            return message
        reply = message.reply and (self.names.leaving(message.reply) or message.reply)
        return replace(message, subject=subject, reply=reply)

    def entering(self, message: Message) -> Message | None:
        """A message from the federation in the domain's names; None if it has none here."""
        subject = self.names.entering(message.subject)
        return None if subject is None else replace(message, subject=subject)

    def at_broker(self, patterns: Iterable[str]) -> tuple[str, ...]:
        """What subjects and patterns are called at the broker."""
        return tuple(dict.fromkeys(each for pattern in patterns for each in self.names.called_here(pattern)))

    def served(self, subject: str, groups: tuple[str, ...]) -> tuple[str, ...]:
        """Those of some groups that have a member here for a subject by its local name.

        A wildcard that reaches over renamed names asks for more than it covers here.
        """
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


class RenamedAttachment:
    """See `Attachment` and `AttachmentOwner`: renames what passes between the two."""

    def __init__(
        self, site: SiteNames, attach: Callable[[AttachmentOwner], Attachment], owner: AttachmentOwner
    ) -> None:
        self._site = site
        self._owner = owner
        self._interest: Counter[tuple[str, str]] = Counter()
        """How many local patterns ask for a pattern of the federation, by queue group."""
        self._local: set[tuple[str, str]] = set()
        """Local patterns that are subscribed to, by queue group."""
        self._asked: Counter[str] = Counter()
        """How many patterns of the federation ask for a local one."""
        self._inner = attach(self)

    # -- the attachment -------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Stay attached until cancelled."""
        await self._inner.run()

    def subscribe(self, subjects: Iterable[str]) -> None:
        """Ask for what the domain's publishers send, by their names for it."""
        new = []
        for subject in subjects:
            for each in self._site.names.wanted_elsewhere(subject):
                self._asked[each] += 1
                if self._asked[each] == 1:
                    new.append(each)
        self._inner.subscribe(new)

    def unsubscribe(self, subjects: Iterable[str]) -> None:
        """End subscriptions that nothing else asks for."""
        over = []
        for subject in subjects:
            for each in self._site.names.wanted_elsewhere(subject):
                if self._asked[each] > 0:
                    self._asked[each] -= 1
                    if not self._asked[each]:
                        del self._asked[each]
                        over.append(each)
        self._inner.unsubscribe(over)

    def confirm(self, done: Callable[[], None]) -> None:
        """See `Attachment`."""
        self._inner.confirm(done)

    def after_interest(self, done: Callable[[], None]) -> None:
        """See `Attachment`."""
        self._inner.after_interest(done)

    def outlet(self, line: bytes, message: Message, groups: tuple[str, ...]) -> Flow:
        """The flow by which messages with this line reach subscribers under their own name for it."""
        local = self._site.entering(message)
        if local is None:
            return DISCARD
        if local.subject == message.subject:
            return self._inner.outlet(line, message, groups)
        local_line = local.line(local.subject, local.reply, local.groups)
        return Rewrite(line, local_line, message.skip, self._inner.outlet(local_line, local, groups))

    # -- its owner ------------------------------------------------------------------------------------------

    @property
    def sorter(self) -> Sorter:
        """Lines are judged, and renamed, by the owner."""
        return self._owner.sorter

    def buffer_done(self) -> None:
        """See `AttachmentOwner`."""
        self._owner.buffer_done()

    def interest(self, subject: str, group: str, wanted: bool) -> None:
        """A local subscription came or went; that it is there may be told more than once."""
        known = (subject, group) in self._local
        if known != wanted:
            (self._local.add if wanted else self._local.discard)((subject, group))
        if group:
            self._site.member(subject, group, here=wanted)
        for each in self._site.names.wanted_here(subject):
            shared = group and selector_in(group) is None
            if shared and each == subject and self._site.reaches_over(subject):
                continue  # jobs would be sent here, or kept here, for which there is no member
            key = each, group
            if known != wanted:
                self._interest[key] += 1 if wanted else -1
            if wanted or not self._interest[key]:
                self._owner.interest(each, group, wanted)
            if not self._interest[key]:
                del self._interest[key]

    def ignored(self, what: str) -> None:
        """See `AttachmentOwner`."""
        self._owner.ignored(what)

    def undelivered(self, reason: str, count: int, topic: str = "") -> None:
        """See `AttachmentOwner`. It may be of a topic whose messages come in alone, or go out alone."""
        self._owner.undelivered(reason, count, (topic and self._site.names.name_there(topic)) or "")

    def attached(self, broker: str = "", *, elsewhere: bool = False) -> None:
        """Everything is to be said anew, both ways."""
        self._asked.clear()
        self._interest.clear()
        self._local.clear()
        self._site.forget_members()
        self._owner.attached(broker, elsewhere=elsewhere)

    def doubted(self, doubted: bool) -> None:
        """See `AttachmentOwner`."""
        self._owner.doubted(doubted)

    def lost(self, reason: str) -> None:
        """See `AttachmentOwner`."""
        self._owner.lost(reason)

    def writable(self, writable: bool) -> None:
        """See `AttachmentOwner`."""
        self._owner.writable(writable)
