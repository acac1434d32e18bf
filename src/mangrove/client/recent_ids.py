"""Recognises messages that a subscription has had already."""

from __future__ import annotations

from typing import Any

from mangrove.broker.message_ids import ID_END, ID_START, identity_of
from mangrove.client.message import TIME_START, Message

REMEMBERED = 1 << 14
_ID_AT = len(ID_START)

Key = tuple[str, bytes] | bytes
"""Subject and id; the id alone where all messages have one subject."""


class RecentIds:
    """At most so many (subject, id) pairs, besides the present buffer's, and at least the last half of them.

    Gateways deliver every frame once; but one whose machine lost power forgets what it has delivered just
    before, and its neighbour sends again what was not acknowledged: better twice than never. Here the second
    copy ends, as do those of a subscription that is served by two brokers while it moves.

    Pairs are in two generations: when the younger one is full, the older is forgotten as a whole. So memory
    is bounded, whatever ids look like and however many publishers there are, and a buffer in which nothing
    is known costs a few operations on sets.
    """

    def __init__(self, remembered: int = REMEMBERED, *, one_subject: bool = False) -> None:
        self._generation = max(remembered // 2, 1)
        self._one_subject = one_subject
        self._younger: set[Key] = set()
        self._older: set[Key] = set()
        self.duplicates = 0

    def fresh(self, messages: list[Message]) -> list[Message]:
        """Those of a buffer that have not been seen before, in their order."""
        received: list[Any] = messages  # their heads are bytes, for they came from a broker
        if self._one_subject:
            keys: list[Key] = [
                head[_ID_AT:ID_END]
                for message in received
                if (head := message.head).startswith(TIME_START, ID_END) and head.startswith(ID_START)
            ]
        else:
            keys = [
                (message.subject, head[_ID_AT:ID_END])
                for message in received
                if (head := message.head).startswith(TIME_START, ID_END) and head.startswith(ID_START)
            ]
        if len(keys) == len(messages):
            new = set(keys)
            if len(new) == len(keys) and self._younger.isdisjoint(new) and self._older.isdisjoint(new):
                self._make_room()
                self._younger |= new
                return messages
        return [message for message in received if self._note(message.subject, identity_of(message.head))]

    def known(self) -> set[Key]:
        """All that is remembered."""
        return self._older | self._younger

    def is_new(self, subject: str, identity: str | None) -> bool:
        """Whether a message has not been seen before; one without an id always counts as new."""
        return self._note(subject, None if identity is None else identity.encode())

    def _note(self, subject: str, identity: bytes | None) -> bool:
        if identity is None:
            return True
        key: Key = identity if self._one_subject else (subject, identity)
        if key in self._younger or key in self._older:
            self.duplicates += 1
            return False
        self._make_room()
        self._younger.add(key)
        return True

    def _make_room(self) -> None:
        if len(self._younger) >= self._generation:
            self._older, self._younger = self._younger, set()
