"""What two sockets to one server bring for the same subscriptions, each message once and in order.

The new socket is subscribed while the old one is, and what it brings is held until the old one is at its end.
Whatever came by both is known by its id, or by its bytes. Messages that look the same to the byte are told
apart by markers that go through both: what the new socket brings before one came by the old one as well, and
from there on both bring the same, copy for copy. A message that is under way while a marker passes may be
before it on one socket and behind it on the other; so a marker counts behind which both brought the same.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from mangrove.broker.message_ids import identity_of
from mangrove.broker.nats.client.scanner import Inlet

MAX_NOTED = 1 << 17
MAX_HELD_BYTES = 1 << 24
DIGEST_BYTES = 16

Key = tuple[int, str | bytes]
"""A subscription, and an id or a digest there."""


class _Held(NamedTuple):
    inlet: Inlet
    form: object
    messages: list[Any]
    size_bytes: int
    round: int
    """Behind how many markers it came."""


class SocketOverlap:
    """Decides for all subscriptions of one connection; `old` and `new` are the gates of its two sockets."""

    def __init__(self, *, marked: bool) -> None:
        """Without markers, messages that look the same are taken for copies from the beginning."""
        self.old = _OldGate(self)
        self.new = _NewGate(self)
        self._start: int | None = None if marked else 0
        """From this marker on both bring the same."""
        self._ids: set[Key] = set()
        self._copies: Counter[Key] = Counter()
        self._held: list[_Held] = []
        self._held_bytes = 0
        self._released = False
        self.repeated = 0
        """Messages of the new socket that the old one had brought."""

    @property
    def too_much(self) -> bool:
        """Whether it lasts too long for what is kept of it."""
        noted = len(self._ids) + sum(map(len, self.old.rounds))
        return noted > MAX_NOTED or self._held_bytes > MAX_HELD_BYTES

    def agree(self, *, at_last: bool = False) -> bool:
        """Whether both have brought the same between two markers: no message was under way at the first.

        `at_last`: the newest will have to do.
        """
        if self._start is None:
            last = min(self.old.markers, self.new.markers)
            same = last > 1 and self.old.rounds[last - 1] == self.new.rounds[last - 1]
            if same or (at_last and last):
                self._start = last - 1 if same else last
        return self._start is not None

    def take(self, inlet: Inlet, messages: list[Any], size_bytes: int, round_: int) -> None:
        """The new socket has brought these: hold them, or hand over what is new."""
        taken = _Held(inlet, inlet.form, messages, size_bytes, round_)
        if self._released:
            self._hand_over(taken)
        else:
            self._held.append(taken)
            self._held_bytes += size_bytes

    def note_ids(self, names: set[Key]) -> None:
        """The old socket has brought these."""
        self._ids |= names

    def release(self) -> None:
        """The old socket is at its end."""
        self._released = True
        for each in self.old.rounds[self._start or 0 :]:
            self._copies.update(each)
        held, self._held = self._held, []
        for taken in held:
            self._hand_over(taken)

    def _hand_over(self, taken: _Held) -> None:
        inlet = taken.inlet
        fresh = taken.messages
        if not inlet.shares:
            fresh = [each for each in taken.messages if self._is_new(inlet.sid, each, taken.round)]
        self.repeated += len(taken.messages) - len(fresh)
        if fresh:
            if inlet.form is not taken.form:  # somebody else listens by now
                fresh = [inlet.form(m.subject, m.data, m.head, m.reply, inlet.origin) for m in fresh]
            inlet.sink(fresh, taken.size_bytes)

    def _is_new(self, sid: int, message: Any, round_: int) -> bool:
        identity, digest = _name(message)
        if identity:
            return (sid, identity) not in self._ids
        if round_ < (self._start or 0):
            return False
        if self._copies[sid, digest] > 0:
            self._copies[sid, digest] -= 1
            return False
        return True


class _Gate:
    """Between a socket and the sinks; knows which part of a buffer came behind which marker."""

    def __init__(self, overlap: SocketOverlap) -> None:
        self._overlap = overlap
        self.rounds: list[Counter[Key]] = [Counter()]
        """What has no id, before the first marker and behind each."""
        self._cuts: list[dict[Inlet, int]] = []
        """For each marker in the present buffer, how many messages of each subscription were before it."""

    @property
    def markers(self) -> int:
        """How many have come."""
        return len(self.rounds) - 1

    def mark(self, inlets: dict[int, Inlet]) -> None:
        """A marker comes, in its order among the messages."""
        self.rounds.append(Counter())
        self._cuts.append({inlet: len(inlet.messages) for inlet in inlets.values()})

    def end_buffer(self) -> None:
        """All of a buffer was handed over."""
        self._cuts.clear()

    def _parts(self, inlet: Inlet, messages: list[Any]) -> Iterator[tuple[int, list[Any]]]:
        """The messages of a buffer by their rounds; what they are is noted."""
        first = self.markers - len(self._cuts)
        places = [0, *(cut.get(inlet, 0) for cut in self._cuts), len(messages)]
        for number, (place, end) in enumerate(itertools.pairwise(places)):
            part = messages[place:end]
            if not part:
                continue
            if not inlet.shares:
                ids: set[Key] = set()
                for message in part:
                    identity, digest = _name(message)
                    if identity:
                        ids.add((inlet.sid, identity))
                    else:
                        self.rounds[first + number][inlet.sid, digest] += 1
                self._note(ids)
            yield first + number, part

    def _note(self, ids: set[Key]) -> None:
        """What came has these ids."""


class _OldGate(_Gate):
    def __call__(self, inlet: Inlet, messages: list[Any], size_bytes: int) -> None:
        for _ in self._parts(inlet, messages):
            pass  # noted
        inlet.sink(messages, size_bytes)

    def _note(self, ids: set[Key]) -> None:
        self._overlap.note_ids(ids)


class _NewGate(_Gate):
    def __call__(self, inlet: Inlet, messages: list[Any], size_bytes: int) -> None:
        for round_, part in self._parts(inlet, messages):
            self._overlap.take(inlet, part, size_bytes * len(part) // len(messages), round_)


def _name(message: Any) -> tuple[str, bytes]:
    """What a message is recognised by: its id, or where it has none a digest of all of it."""
    head = message.head if isinstance(message.head, bytes) else b""
    identity = identity_of(head) if head else None
    if identity is not None:
        return f"{message.subject} {identity.decode(errors='replace')}", b""
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for part in (message.subject.encode(), message.reply.encode(), head):
        digest.update(len(part).to_bytes(4))
        digest.update(part)
    digest.update(message.data)
    return "", digest.digest()
