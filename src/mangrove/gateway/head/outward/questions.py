"""What clients ask their gateway itself: for directions, and whether their subscriptions are known."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mangrove.broker.attachment import Attachment
from mangrove.model.subjects import WAY_BACK_PREFIX
from mangrove.overlay.protocol.bodies import Entry, Message

INBOXES = ("_INBOX.", WAY_BACK_PREFIX)


class Questions:
    """Answers through the broker, at inboxes of the own domain alone."""

    def __init__(self, directions: bytes, when_known: Callable[[Callable[[], None]], None]) -> None:
        """`directions` is the answer to clients that ask for them; empty, nobody is answered.

        `when_known` lets somebody wait until all publishers know of what is wanted.
        """
        self.directions = directions
        self._when_known = when_known
        self._attachment: Attachment | None = None

    def join(self, attachment: Attachment) -> None:
        """How answers get to the broker. Told once, before anybody asks."""
        self._attachment = attachment

    def for_directions(self, message: Message) -> Entry | None:
        """What a line means that asks for directions; None if it gets none here."""
        if self._attachment is None or not self.directions or not message.reply.startswith(INBOXES):
            return None
        answer = Answered(self._attachment, message.reply, self.directions)
        return Entry(message.skip, answer, once=True, booked=False)

    def for_readiness(self, message: Message) -> Entry | None:
        """What a line means that asks whether all subscriptions are known; None if it gets no answer."""
        if self._attachment is None or not message.reply.startswith(INBOXES):
            return None
        question = Question(self._attachment, message.reply, self._when_known)
        return Entry(message.skip, question, once=True, booked=False)


class Answered:
    """The flow of a question that has always the same answer."""

    def __init__(self, attachment: Attachment, inbox: str, answer: bytes = b"") -> None:
        self._attachment = attachment
        message = Message(inbox, "", -1, len(answer))
        line = message.line(inbox, "", ())
        self._outlet = attachment.outlet(line, message, ())
        self._answer = b"%b\r\n%b\r\n" % (line, answer)

    def take(self, messages: bytes) -> None:
        """Answer."""
        self._outlet.take(self._answer)


class Question(Answered):
    """The flow of a question whether all subscriptions that were made before it are known.

    First here, and then (`when_known`) to all publishers of the domain that were silent for the lack of them.
    """

    def __init__(
        self, attachment: Attachment, inbox: str, when_known: Callable[[Callable[[], None]], None]
    ) -> None:
        super().__init__(attachment, inbox)
        self._when_known = when_known

    def take(self, messages: bytes) -> None:
        """Answer, once they are."""
        answer = partial(self._outlet.take, self._answer)
        self._attachment.after_interest(partial(self._when_known, answer))
