"""Where messages end that are refused at the head, in either direction: they are booked."""

from __future__ import annotations

from mangrove.gateway.ledger import Ledger

NOT_UTF8 = "the subject is not UTF-8"
MALFORMED = "the subject or the headers are malformed"


class Refused:
    """The flow of messages that are refused for a reason, and booked by topic."""

    def __init__(self, ledger: Ledger, reason: str) -> None:
        self._ledger = ledger
        self._reason = reason

    def take(self, messages: bytes) -> None:
        """Book a run of messages."""
        self._ledger.drop_body(messages, self._reason)


class Unreadable:
    """The flow of one line that cannot be read: there is no topic to book its messages under."""

    def __init__(self, ledger: Ledger, line: bytes, message_bytes: int) -> None:
        self._ledger = ledger
        self._message_bytes = message_bytes
        try:
            line.decode()
        except UnicodeDecodeError:
            self._reason = NOT_UTF8
        else:
            self._reason = MALFORMED

    def take(self, messages: bytes) -> None:
        """Book a run of messages."""
        self._ledger.drop_unnamed(self._reason, len(messages) // self._message_bytes)
