"""Where messages end that may not pass the border: they are counted, and not looked into."""

from __future__ import annotations

from collections.abc import Callable

from mangrove.gateway.access.border_book import BorderBook
from mangrove.model.access.evaluation import Decision
from mangrove.model.access.refusals import Crossing
from mangrove.overlay.protocol.bodies import Message


class MayNotLeave:
    """The flow of one line on a subject that some domains may not have."""

    __slots__ = ("_book", "_length", "_refused", "_subject")

    def __init__(
        self,
        book: BorderBook,
        line: bytes,
        message: Message,
        subject: str,
        refused: tuple[tuple[str, Decision], ...],
    ) -> None:
        """`refused` are the domains, each with what forbids it."""
        self._book = book
        self._length = len(line) + message.skip
        self._subject = subject
        self._refused = refused

    def take(self, messages: bytes) -> None:
        """Count a run of messages."""
        count = len(messages) // self._length
        for domain, decision in self._refused:
            self._book.refuse(Crossing.LEAVE, domain, self._subject, decision, count)


class MayNotEnter:
    """The flow of one line on a subject that may not come from some domains, which `origin` tells."""

    __slots__ = ("_book", "_decision", "_length", "_origin", "_subject")

    def __init__(
        self, book: BorderBook, line: bytes, message: Message, decision: Decision, origin: Callable[[], str]
    ) -> None:
        self._book = book
        self._length = len(line) + message.skip
        self._subject = message.subject
        self._decision = decision
        self._origin = origin

    def take(self, messages: bytes) -> None:
        """Count a run of messages."""
        count = len(messages) // self._length
        self._book.refuse(Crossing.ENTER, self._origin(), self._subject, self._decision, count)
