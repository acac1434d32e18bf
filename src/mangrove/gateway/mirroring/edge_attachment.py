"""A gateway's second attachment: to one edge broker, for the second copies of mirrored topics alone.

What the broker's subscribers want of them is told by that broker alone: mirror subjects do not travel between
brokers. So a copy that is written here reaches the subscribers of this broker, and nobody else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, KeysView
from typing import Protocol

from mangrove.broker.attachment import Attachment, AttachmentOwner
from mangrove.gateway.line_table import LineTable
from mangrove.model.patterns.trie import SubjectTrie
from mangrove.model.shared_names import MIRROR_AGAIN, MIRROR_LEASE_S, MIRROR_PREFIX
from mangrove.model.subjects import is_internal
from mangrove.overlay.protocol.bodies import Message

MAX_WANTED = 100_000
"""Mirror subjects that one broker's subscribers may want."""


class EdgeOwner(Protocol):
    """Who is told what happens at an edge."""

    def edge_attached(self, edge: EdgeAttachment) -> None:
        """The broker is there."""

    def edge_wants(self, subjects: Iterable[str]) -> None:
        """Other subjects or patterns are wanted at some edge than before."""

    def edge_done(self) -> None:
        """A buffer of copies has been sorted."""


class EdgeAttachment:
    """Subscribes to copies, writes copies, and knows which are wanted."""

    def __init__(
        self,
        name: str,
        attach: Callable[[AttachmentOwner], Attachment],
        owner: EdgeOwner,
        sorter: Callable[[EdgeAttachment], LineTable],
    ) -> None:
        self.name = name
        self._owner = owner
        self._wanted: dict[str, None] = {}
        self._patterns: SubjectTrie[bool] = SubjectTrie()
        self._changed: dict[str, None] = {}
        self._writable = False
        self.connected = False
        self.doubled_until = float("-inf")
        """Until when what is otherwise said at the head alone is said here too."""
        self.written = 0
        self.left_out = 0
        """Runs of copies that the broker could not take; their first copies went by the head."""
        self.sorter = sorter(self)
        self._attachment = attach(self)

    async def run(self) -> None:
        """Stay attached until cancelled."""
        await self._attachment.run()

    def wants(self, subject: str) -> bool:
        """Whether somebody here wants copies of a literal subject."""
        return bool(self._patterns.match(subject))

    def wants_exactly(self, subject: str) -> bool:
        """Whether a subscription here is to copies of this subject or pattern."""
        return subject in self._wanted

    def wanted(self) -> KeysView[str]:
        """All subjects and patterns that are subscribed to."""
        return self._wanted.keys()

    def double(self, now: float) -> None:
        """Somebody misses the first copies."""
        self.doubled_until = now + MIRROR_LEASE_S

    def subscribe(self, subjects: Iterable[str]) -> None:
        """Ask for the copies of subjects."""
        self._attachment.subscribe(f"{MIRROR_PREFIX}{subject}" for subject in subjects)

    def unsubscribe(self, subjects: Iterable[str]) -> None:
        """End subscriptions."""
        self._attachment.unsubscribe(f"{MIRROR_PREFIX}{subject}" for subject in subjects)

    def hear_requests(self) -> None:
        """Ask for what subscribers say who miss something."""
        self._attachment.subscribe([MIRROR_AGAIN])

    def ask_again(self, pattern: str) -> None:
        """Ask the publishers that are connected here to say their last messages again."""
        payload = pattern.encode()
        message = Message(MIRROR_AGAIN, "", -1, len(payload))
        line = message.line(MIRROR_AGAIN, "")
        if self.connected:
            self._attachment.outlet(line, message, ()).take(b"%b\r\n%b\r\n" % (line, payload))

    def copy(self, line: bytes, message: Message, messages: bytes) -> None:
        """Write a run of copies with this line; a broker that takes no more now goes without."""
        if not (self.connected and self._writable):
            self.left_out += 1
            return
        self.written += len(messages) // (len(line) + message.skip)
        self._attachment.outlet(line, message, ()).take(messages)

    # -- the attachment's owner -----------------------------------------------------------------------------

    def attached(self, broker: str = "", *, elsewhere: bool = False) -> None:
        """Everything is to be said anew."""
        self.connected = self._writable = True
        self._owner.edge_attached(self)

    def doubted(self, doubted: bool) -> None:
        """Copies are written as long as the broker takes them."""

    def lost(self, reason: str) -> None:
        """Its subscribers are gone with it."""
        self.connected = self._writable = False
        gone = list(self._wanted)
        self._wanted.clear()
        self._patterns = SubjectTrie()
        self._changed.clear()
        self._owner.edge_wants(gone)

    def writable(self, writable: bool) -> None:
        """The broker can, or for now cannot, take more."""
        self._writable = writable

    def interest(self, subject: str, group: str, wanted: bool) -> None:
        """Only copies are of interest here; queue groups are served by the head alone."""
        topic = subject[len(MIRROR_PREFIX) :]
        if group or not subject.startswith(MIRROR_PREFIX) or is_internal(topic):
            return
        if wanted:
            if len(self._wanted) >= MAX_WANTED:
                return
            self._wanted[topic] = None
            self._patterns.add(topic, True)
        else:
            self._wanted.pop(topic, None)
            self._patterns.remove(topic, True)
        self._changed[topic] = None

    def buffer_done(self) -> None:
        """What lines mean may have changed with what is wanted."""
        if self._changed:
            changed = list(self._changed)
            self._changed.clear()
            self._owner.edge_wants(changed)
        self._owner.edge_done()

    def ignored(self, what: str) -> None:
        """Told by the head too."""

    def undelivered(self, reason: str, count: int, topic: str = "") -> None:
        """Copies are for nobody but the broker's own subscribers of today."""
