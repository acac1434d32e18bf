"""One subscription's messages from two ways, the primary's and the mirror's: each once, in order.

Each way brings the messages of a publisher in their order. While both are complete, whichever is ahead at the
moment brings the next one, and order keeps itself. A way that has just begun is not complete: what it brings
may be ahead of what the other still has to bring. So it waits until the other has brought something that it
brought too, and goes on from there; or until the other is gone, or for `JOIN_S` at most.

A mirror that stands by brings nothing but what publishers were asked to say again. When the primary's way
begins again it is not known yet who will: all are waited for, but those of whom nothing comes by the mirror
for `ANSWER_S` only.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from mangrove.broker.message_ids import ID_BYTES, PREFIX_BYTES, identity_of
from mangrove.client.message import Message, size_of
from mangrove.client.mirroring.mirrored_ids import MirroredIds

JOIN_S = 2.0
ANSWER_S = 0.25
MAX_HELD = 1 << 14
MAX_HELD_BYTES = 8 << 20
MAX_ORIGINS = 1 << 12
FOREVER = float("inf")


class Plane(Enum):
    """A way on which messages come."""

    PRIMARY = "primary"
    MIRROR = "mirror"

    @property
    def other(self) -> Plane:
        """The other way."""
        return Plane.MIRROR if self is Plane.PRIMARY else Plane.PRIMARY


class _Joining:
    """A way that has just begun, and what it brought that waits for the other."""

    def __init__(self, until: float, origins: frozenset[bytes] | None, answer_until: float = FOREVER) -> None:
        self.until = until
        self.origins = origins
        """Publishers that are waited for; None: all."""
        self.answer_until = answer_until
        """When it is known who is not heard the other way."""
        self.held: dict[bytes, dict[bytes, Message]] = {}
        """By publisher and id, in the order in which they came."""
        self.settled: set[bytes] = set()
        self.count = 0
        self.size_bytes = 0

    @property
    def over(self) -> bool:
        return self.count > MAX_HELD or self.size_bytes > MAX_HELD_BYTES or len(self.settled) > MAX_ORIGINS

    def waits_for(self, origin: bytes) -> bool:
        return origin not in self.settled and (self.origins is None or origin in self.origins)

    def hold(self, origin: bytes, identity: bytes, message: Message) -> bool:
        held = self.held.setdefault(origin, {})
        if identity in held:
            return False
        held[identity] = message
        self.count += 1
        self.size_bytes += size_of(message)
        return True

    def take_over(self, before: _Joining) -> None:
        """Go on with what waited when the same way began last."""
        self.held, self.count, self.size_bytes = before.held, before.count, before.size_bytes
        if before.count:
            self.until = before.until

    def settle(self, origin: bytes) -> list[Message]:
        self.settled.add(origin)
        held = self.held.pop(origin, {})
        self.count -= len(held)
        return list(held.values())

    def wait_only_for(self, origins: frozenset[bytes]) -> list[Message]:
        """What the other publishers said goes."""
        self.origins, self.answer_until = origins, FOREVER
        return [message for origin in self.held.keys() - origins for message in self.settle(origin)]

    def everything(self) -> list[Message]:
        held, self.held = self.held, {}
        return [message for messages in held.values() for message in messages.values()]


class Planes:
    """Hands each message over once. Both ways exist from the beginning; the mirror's begins to join then."""

    def __init__(self, one_subject: bool) -> None:
        self.ids = MirroredIds(one_subject)
        self._joining: dict[Plane, _Joining] = {}
        self._mirrored: set[bytes] = set()
        """Publishers that something came of by the mirror."""
        self.held = 0
        """Messages that had to wait for the other way, so far."""

    def joins(self, plane: Plane, now: float, *, answers: bool = False) -> None:
        """A way begins, or has begun again after it was lost; the other lives.

        With `answers`, the other brings only what was asked for, and it is to be seen of whom that is.
        """
        if answers:
            joining = _Joining(now + JOIN_S, None, now + ANSWER_S)
        else:
            joining = _Joining(now + JOIN_S, None if plane is Plane.MIRROR else frozenset(self._mirrored))
        if (before := self._joining.get(plane)) is not None:
            joining.take_over(before)
        self._joining[plane] = joining

    def lost(self, plane: Plane, now: float) -> list[Message]:
        """A way is gone, and nobody waits for it: what to hand over now.

        What it brought itself and has not been handed over still waits for the other, for as long as it would
        have: nobody else may bring it.
        """
        if (mine := self._joining.get(plane)) is not None and not mine.count:
            del self._joining[plane]
        return self._release(plane.other, now)

    def came(self, plane: Plane, messages: list[Message], now: float) -> list[Message]:
        """What came by one way: what to hand over now."""
        if plane is Plane.MIRROR and len(self._mirrored) < MAX_ORIGINS:
            self._mirrored.update(_origins(messages))
        if not self._joining:
            return self.ids.fresh(messages, now)
        due = self.handle_timer(now)
        for message in messages:
            due += self._one(plane, message)
        return due

    def handle_timer(self, now: float) -> list[Message]:
        """What has waited for long enough."""
        due: list[Message] = []
        for plane, joining in list(self._joining.items()):
            if now >= joining.until or joining.over:
                due += self._release(plane, now)
            elif now >= joining.answer_until:
                due += self._new(joining.wait_only_for(frozenset(self._mirrored)))
        return due

    def _one(self, plane: Plane, message: Message) -> list[Message]:
        head = message.head
        identity = identity_of(head) if isinstance(head, bytes) else None
        if identity is None or len(identity) != ID_BYTES:
            return [message] if self.ids.note(message.subject, identity) else []
        origin = identity[:PREFIX_BYTES]
        mine = self._joining.get(plane)
        if mine is not None and mine.waits_for(origin):
            if self.ids.knows(message.subject, identity):
                return self._new([*mine.settle(origin), message])
            if not mine.hold(origin, identity, message):
                self.ids.duplicates += 1
            self.held += 1
            return []
        theirs = self._joining.get(plane.other)
        if theirs is not None and identity in theirs.held.get(origin, ()):
            # The copy that waited goes in its place, after what the other way has missed.
            self.ids.duplicates += 1
            return self._new(theirs.settle(origin))
        return [message] if self.ids.note(message.subject, identity) else []

    def _new(self, messages: Iterable[Message]) -> list[Message]:
        noted = self.ids.note
        return [each for each in messages if isinstance(each.head, bytes) and noted(*_name(each))]

    def _release(self, plane: Plane, now: float) -> list[Message]:
        joining = self._joining.pop(plane, None)
        return [] if joining is None else self.ids.fresh(joining.everything(), now)


def _name(message: Message) -> tuple[str, bytes | None]:
    assert isinstance(message.head, bytes)
    return message.subject, identity_of(message.head)


def _origins(messages: list[Message]) -> set[bytes]:
    found = (identity_of(head) for each in messages if isinstance(head := each.head, bytes))
    return {identity[:PREFIX_BYTES] for identity in found if identity is not None}
