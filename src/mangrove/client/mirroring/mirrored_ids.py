"""Recognises messages that came already, by whichever of two ways, also if the other copy is late."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mangrove.broker.message_ids import ID_BYTES, ID_END, ID_START, PREFIX_BYTES, identity_of
from mangrove.client.message import TIME_START, Message
from mangrove.client.recent_ids import Key

GENERATION_S = 5.0
"""Ids are known for at least so long, as far as there is room: two ways differ by far less."""
MAX_GENERATION = 1 << 18
MIN_GENERATION = 1 << 13
MAX_ORIGINS = 1 << 14
_ID_AT = len(ID_START)


class MirroredIds:
    """Pairs of subject and id in two generations, as in `RecentIds`; but each lasts for a time, not a count.

    What an earlier generation held is known by the highest number of each publisher and subject in it: counts
    rise over all that a publisher says on a subject, so whatever comes later with a lower one is a copy that
    was held up, or comes too late to be handed over in order. A broker that was frozen for a minute has some
    of those. Over several subjects counts need not rise: of what a publisher kept while no broker could be
    reached, the urgent is sent first.
    """

    def __init__(self, one_subject: bool) -> None:
        self._one_subject = one_subject
        self._younger: set[Key] = set()
        self._older: set[Key] = set()
        self._since = -GENERATION_S
        self._floors: dict[Key, bytes] = {}
        """By publisher, and subject unless there is but one, an id: up to it all has been forgotten."""
        self.duplicates = 0
        self.late = 0
        """Of the duplicates, those that were recognised by their number alone."""

    def adopt(self, known: Iterable[Key]) -> None:
        """These came before."""
        self._older.update(known)

    def fresh(self, messages: list[Message], now: float) -> list[Message]:
        """Those of a buffer that have not been seen before, in their order."""
        if len(self._younger) >= MIN_GENERATION:
            self._turn(now)
        received: list[Any] = messages  # their heads are bytes, for they came from a broker
        keys = [
            head[_ID_AT:ID_END]
            for message in received
            if (head := message.head).startswith(TIME_START, ID_END) and head.startswith(ID_START)
        ]
        if len(keys) == len(messages) and not (self._floors and self._below(messages, keys)):
            new: set[Key] = (
                set(keys)
                if self._one_subject
                else {(message.subject, key) for message, key in zip(messages, keys, strict=True)}
            )
            if len(new) == len(keys):
                if self._younger.isdisjoint(new) and self._older.isdisjoint(new):
                    self._younger |= new
                    return messages
                if new <= self._younger:  # all of it came by the other way
                    self.duplicates += len(keys)
                    return []
        return [message for message in received if self.note(message.subject, identity_of(message.head))]

    def _below(self, messages: list[Message], keys: list[bytes]) -> bool:
        floors = self._floors
        if self._one_subject:
            return any(key <= floors.get(key[:PREFIX_BYTES], b"") for key in keys)
        return any(
            key <= floors.get((message.subject, key[:PREFIX_BYTES]), b"")
            for message, key in zip(messages, keys, strict=True)
        )

    def note(self, subject: str, identity: bytes | None) -> bool:
        """Whether a message is new; one without an id always is."""
        if identity is None:
            return True
        if self.knows(subject, identity):
            self.duplicates += 1
            return False
        origin = self._key(subject, identity[:PREFIX_BYTES])
        if len(identity) == ID_BYTES and identity <= self._floors.get(origin, b""):
            self.duplicates += 1
            self.late += 1
            return False
        self._younger.add(self._key(subject, identity))
        return True

    def knows(self, subject: str, identity: bytes) -> bool:
        """Whether a message came."""
        key = self._key(subject, identity)
        return key in self._younger or key in self._older

    def _key(self, subject: str, identity: bytes) -> Key:
        return identity if self._one_subject else (subject, identity)

    def _turn(self, now: float) -> None:
        if now - self._since < GENERATION_S and len(self._younger) < MAX_GENERATION:
            return
        floors = self._floors
        for key in self._older:
            identity = key if isinstance(key, bytes) else key[1]
            if len(identity) == ID_BYTES:
                start = identity[:PREFIX_BYTES]
                origin: Key = start if isinstance(key, bytes) else (key[0], start)
                if identity > floors.get(origin, b""):
                    floors.pop(origin, None)
                    floors[origin] = identity
        while len(floors) > MAX_ORIGINS:  # those of whom nothing was heard for longest
            del floors[next(iter(floors))]
        self._older, self._younger = self._younger, set()
        self._since = now
