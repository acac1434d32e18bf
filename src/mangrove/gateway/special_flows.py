"""Where lines from the head broker lead that go to no other domain: they are answered, or booked."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mangrove.broker.attachment import Attachment
from mangrove.gateway.ledger import Ledger
from mangrove.overlay.protocol.bodies import Message

NOT_UTF8 = "the subject is not UTF-8"


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


class Refused:
    """The flow of messages that are refused for a reason, and booked by topic."""

    def __init__(self, ledger: Ledger, reason: str) -> None:
        self._ledger = ledger
        self._reason = reason

    def take(self, messages: bytes) -> None:
        """Book a run of messages."""
        self._ledger.drop_body(messages, self._reason)


class Unreadable:
    """The flow of one line whose subject cannot be read: there is no topic to book its messages under."""

    def __init__(self, ledger: Ledger, message_bytes: int) -> None:
        self._ledger = ledger
        self._message_bytes = message_bytes

    def take(self, messages: bytes) -> None:
        """Book a run of messages."""
        self._ledger.drop_unnamed(NOT_UTF8, len(messages) // self._message_bytes)
