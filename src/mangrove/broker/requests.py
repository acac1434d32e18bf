"""Requests: one subscription takes the answers to all of them."""

from __future__ import annotations

import asyncio
import itertools
import secrets
from typing import Any, NamedTuple

from mangrove.broker.client_connection import (
    BrokerAwayError,
    ClientConnection,
    Denial,
    Form,
    NoResponderError,
    RawMessage,
)
from mangrove.broker.message_heads import NO_RESPONDERS, status_of


class _Asked(NamedTuple):
    subject: str
    answer: asyncio.Future[RawMessage]


class Requests:
    """Those of one connection that wait for their answers."""

    def __init__(self, connection: ClientConnection, inbox: str) -> None:
        """Answers come to subjects under `inbox`."""
        self._connection = connection
        self._inbox = f"{inbox}.{secrets.token_hex(11)}."
        self._numbers = itertools.count(1)
        self._waiting: dict[str, _Asked] = {}
        self._listening = False

    def listen(self) -> None:
        """Subscribe to all answers, once."""
        if not self._listening:
            self._listening = True
            self._connection.subscribe(f"{self._inbox}*", self._answered)

    async def ask(
        self, subject: str, payload: bytes, head: bytes, timeout_s: float, form: Form, origin: Any
    ) -> Any:
        """The first answer, in the form asked for."""
        self.listen()
        future: asyncio.Future[RawMessage] = asyncio.get_running_loop().create_future()
        reply = f"{self._inbox}{next(self._numbers)}"
        self._waiting[reply] = _Asked(subject, future)
        try:
            self._connection.publish(subject, payload, reply=reply, head=head)
            async with asyncio.timeout(timeout_s):
                answer = await future
        finally:
            del self._waiting[reply]
        if not answer.data and status_of(answer.head) == NO_RESPONDERS:
            raise NoResponderError(f"nobody listens to {subject}")
        return form(answer.subject, answer.data, answer.head, answer.reply, origin)

    def denied(self, denial: Denial) -> None:
        """A rule forbids something: those who ask for it need not wait."""
        ours = not denial.publishing and denial.subject == f"{self._inbox}*"
        for reply, asked in self._waiting.items():
            meant = denial.publishing and (denial.subject == asked.subject or denial.reply == reply)
            if (ours or meant) and not asked.answer.done():
                asked.answer.set_exception(denial.error)

    def close(self) -> None:
        """Nobody is answered any more."""
        for asked in self._waiting.values():
            if not asked.answer.done():
                asked.answer.set_exception(BrokerAwayError("the connection is closed"))

    def _answered(self, messages: list[RawMessage], size_bytes: int) -> None:
        for message in messages:
            asked = self._waiting.get(message.subject)
            if asked is not None and not asked.answer.done():
                asked.answer.set_result(message)
