"""Flows of mirrored topics: of several copies of a message, told by their id, the first is handed on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic

from mangrove.broker.message_ids import ID_END, ID_START, identity_of
from mangrove.gateway.mirroring.recent_ids import Kind, KnownIds, RecentIds
from mangrove.model.shared_names import ID_HEADER
from mangrove.overlay.protocol.bodies import CRLF, Flow, Message

MIN_HEAD_BYTES = len(f"NATS/1.0\r\n{ID_HEADER}:x\r\n\r\n")
"""A shorter head holds no id."""
_CR, _LF = CRLF


def may_have_id(message: Message) -> bool:
    """Whether there is room for an id in a message's head."""
    return message.header_bytes >= MIN_HEAD_BYTES


class Unrepeated:
    """Hands on what has not passed before, in order. It belongs to one line: all messages are equally long.

    What has no id always passes: nobody can tell whether it came before. It has no copy either, so only what
    has an id goes to `copies` too.
    """

    __slots__ = (
        "_copies",
        "_flow",
        "_head",
        "_head_bytes",
        "_ids",
        "_kind",
        "_known",
        "_length",
        "_own",
        "_passed",
    )

    def __init__(
        self,
        line: bytes,
        message: Message,
        kind: Kind,
        ids: RecentIds,
        flow: Flow,
        *,
        copies: Flow | None = None,
        passed: Callable[[int], None] | None = None,
        own: RecentIds | None = None,
    ) -> None:
        """`passed` is told how many messages went on; what is known as `own` came back, and does not."""
        self._own = own
        self._kind = kind
        self._ids = ids
        self._known = ids.of(kind)
        self._flow = flow
        self._copies = copies
        self._passed = passed
        self._length = len(line) + message.skip
        self._head = len(line) + len(CRLF)
        self._head_bytes = message.header_bytes

    def take(self, messages: bytes) -> None:
        """Let pass what is new."""
        if self._known.retired:
            self._known = self._ids.of(self._kind)
        ids, length = self._ids_at_their_place(messages), self._length
        count = len(messages) // length
        if len(ids) < count:
            self._take_each(messages)
        else:
            new = self._known.note(ids)
            if (own := self._came_from_here()) is not None:
                new = own.unknown(new)
            self._ids.repeated += count - len(new)
            if len(new) == count:
                self._hand_on(messages, messages, count)
            elif new:
                passing = b"".join(self._first_of(new, ids, messages))
                self._hand_on(passing, passing, len(passing) // length)
        self._ids.age(monotonic())

    def _ids_at_their_place(self, messages: bytes) -> list[bytes]:
        """Ids of a run of which every head is as the SDK makes it; none if some head may be different."""
        head, length = self._head, self._length
        count = len(messages) // length
        end = head + ID_END
        if self._head_bytes < ID_END + len(CRLF) or (
            messages[end::length].count(_CR) < count or messages[end + 1 :: length].count(_LF) < count
        ):
            return []
        starts = messages.startswith
        return [
            messages[at + len(ID_START) : at + ID_END]
            for at in range(head, len(messages), length)
            if starts(ID_START, at)
        ]

    def _first_of(self, new: set[bytes], ids: list[bytes], messages: bytes) -> Iterator[bytes]:
        """The first message with each of these ids, in order."""
        for place, identity in enumerate(ids):
            if identity in new:
                new.remove(identity)
                yield messages[place * self._length : (place + 1) * self._length]

    def _take_each(self, messages: bytes) -> None:
        """Whatever heads look like."""
        length = self._length
        passing: list[bytes] = []
        identified: list[bytes] = []
        for start in range(0, len(messages), length):
            head = messages[start + self._head : start + self._head + max(self._head_bytes, 0)]
            identity = identity_of(head)
            if identity and not self._is_new(identity):
                self._ids.repeated += 1
                continue
            message = messages[start : start + length]
            passing.append(message)
            if identity:
                identified.append(message)
        self._hand_on(b"".join(passing), b"".join(identified), len(passing))

    def _is_new(self, identity: bytes) -> bool:
        own = self._came_from_here()
        return self._known.is_new(identity) and (own is None or bool(own.unknown({identity})))

    def _came_from_here(self) -> KnownIds | None:
        """The ids of the same subject that left the domain, if any did."""
        return None if self._own is None else self._own.find((self._kind[0], ()))

    def _hand_on(self, messages: bytes, identified: bytes, count: int) -> None:
        if count and self._passed is not None:
            self._passed(count)
        if messages:
            self._flow.take(messages)
        if identified and self._copies is not None:
            self._copies.take(identified)
