"""Recognises messages that a subscription has had already."""

from __future__ import annotations

from typing import cast

from mangrove.client.message import ID_END, ID_START, TIME_START, Message, identity_of

REMEMBERED = 1 << 14
_ID_AT = len(ID_START)


class RecentIds:
    """At most so many (subject, id) pairs, and at least the last half of them.

    Gateways deliver every frame once; but one whose machine lost power forgets what it has delivered just
    before, and its neighbour sends again what was not acknowledged: better twice than never. Here the second
    copy ends, as do those of a subscription that is served by two brokers while it moves.

    Pairs are in two generations: when the younger one is full, the older is forgotten as a whole. That costs
    a look into each and one addition for a message, whatever ids look like and however many publishers there
    are.
    """

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._generation = max(remembered // 2, 1)
        self._younger: set[tuple[str, bytes]] = set()
        self._older: set[tuple[str, bytes]] = set()
        self.duplicates = 0

    def fresh(self, messages: list[Message]) -> list[Message]:
        """Those of a buffer that have not been seen before, in their order."""
        result: list[Message] = []
        keep = result.append
        if len(self._younger) >= self._generation:
            self._forget()
        younger, older = self._younger, self._older
        for message in messages:
            head = cast("bytes", message.head)
            if head.startswith(TIME_START, ID_END) and head.startswith(ID_START):
                key = (message.subject, head[_ID_AT:ID_END])
            else:
                identity = identity_of(head)
                if identity is None:
                    keep(message)
                    continue
                key = (message.subject, identity)
            if key in younger or key in older:
                self.duplicates += 1
            else:
                younger.add(key)
                keep(message)
        return result

    def is_new(self, subject: str, identity: str | None) -> bool:
        """Whether a message has not been seen before; one without an id always counts as new."""
        if identity is None:
            return True
        key = (subject, identity.encode())
        if key in self._younger or key in self._older:
            self.duplicates += 1
            return False
        if len(self._younger) >= self._generation:
            self._forget()
        self._younger.add(key)
        return True

    def _forget(self) -> None:
        self._older, self._younger = self._younger, set()
