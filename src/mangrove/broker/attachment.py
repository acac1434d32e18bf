"""The seam between a gateway and its domain's head broker, whatever kind of broker that is.

An attachment belongs to the broker's kind: it keeps a connection, learns what the domain's subscribers want,
and translates between the broker's own protocol and the format of a frame's body
(mangrove.overlay.protocol.bodies). Its owner, the gateway, decides where messages go and what is booked. All
calls, in both directions, happen in the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from mangrove.model.questions.vouching import AttachedPlace
from mangrove.overlay.protocol.bodies import Entry, Flow, Message

Places = list[Callable[[], AttachedPlace | None]]
"""Asked one by one, they tell where a gateway is attached."""


class Sorter(Protocol):
    """Sorts the messages of the domain's publishers, buffer by buffer, into flows."""

    known: dict[bytes, Entry]
    """What lines mean that were judged before. For an attachment whose broker speaks the body format itself:
    it scans its buffers with this and `resolve`, so that each byte is looked at once."""

    def resolve(self, line: bytes) -> Entry:
        """Where a message with this line goes. May be asked again for a message that was incomplete."""

    def take(self, body: bytes) -> None:
        """Sort whole messages, or raise WireError. For an attachment that has to translate."""


class AttachmentOwner(Protocol):
    """What the owner of an attachment is told."""

    @property
    def sorter(self) -> Sorter:
        """Takes the messages that the owner has subscribed to."""

    def buffer_done(self) -> None:
        """All messages and changes of interest of one buffer have been handed over."""

    def interest(self, subject: str, group: str, wanted: bool) -> None:
        """Somebody in the domain wants `subject` (as a member of queue `group`, if given), or nobody does.

        After `attached`, all that is wanted is told anew.
        """

    def ignored(self, what: str) -> None:
        """Something from the broker was left out; `what` is one of few."""

    def undelivered(self, reason: str, count: int, topic: str = "") -> None:
        """So many messages, of a topic if it is known, perhaps did not reach all whom they were for."""

    def attached(self, broker: str = "", *, elsewhere: bool = False) -> None:
        """The broker of this name is there. It knows nothing of the owner's earlier subscriptions.

        `elsewhere`: it is another broker of the domain than the one that was lost, or one that keeps
        subscriptions itself. Either way, who is not told of at once is away.
        """

    def doubted(self, doubted: bool) -> None:
        """The broker has said nothing for a moment in which it should have, or has spoken again since."""

    def lost(self, reason: str) -> None:
        """The broker is gone; the attachment tries again by itself."""

    def writable(self, writable: bool) -> None:
        """The broker can, or for now cannot, take more."""


class Attachment(Protocol):
    """A connection to a broker of the domain, the first that answers, made again whenever it breaks."""

    async def run(self) -> None:
        """Stay attached until cancelled; then let go of the broker."""

    def subscribe(self, subjects: Iterable[str]) -> None:
        """Ask for what the domain's publishers send on these subjects. Never the owner's own messages."""

    def unsubscribe(self, subjects: Iterable[str]) -> None:
        """End subscriptions."""

    def confirm(self, done: Callable[[], None]) -> None:
        """Call `done` when the broker has taken all that was asked of it so far; never, if it is lost."""

    def after_interest(self, done: Callable[[], None]) -> None:
        """Call `done` when all interest that came before the present message was told; never, if lost."""

    def outlet(self, line: bytes, message: Message, groups: tuple[str, ...]) -> Flow:
        """The flow by which messages with this line reach the broker's subscribers.

        Plain subscribers all get them, and one member of each of these queue groups, which need not
        be those that the line names. Lines that need nothing
        special should share one flow, so that runs of messages stay whole.
        """
