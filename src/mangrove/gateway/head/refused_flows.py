"""Where messages end that are refused at the head, in either direction: they are booked."""

from __future__ import annotations

from mangrove.gateway.ledger import Ledger

NOT_UTF8 = "the subject is not UTF-8"


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
