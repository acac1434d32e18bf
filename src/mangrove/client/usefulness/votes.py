"""What a subscription says of publishers once a second: the mean utility of a sample (equation 1)."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence
from functools import partial
from typing import Any

from mangrove.broker.message_ids import ID_START, PREFIX_BYTES, origin_and_count
from mangrove.client.message import HEAD_BYTES, Message, size_of
from mangrove.client.usefulness.judge import Judge
from mangrove.model.agents.usefulness import MAX_VOTES, PLAIN_ORIGIN, Vote

JUDGED_A_SECOND = 32
"""Messages of one publisher that are judged at most."""
MAX_PUBLISHERS = MAX_VOTES
BUFFERS_A_SECOND = 256
"""Buffers that are looked into; twice as many in a second that brings more than the last."""
MAX_A_BUFFER = 256
"""Publishers of whom one buffer's messages are looked at."""
MAX_HELD = 512
MAX_HELD_BYTES = 4 << 20
"""Messages that wait for the user's function."""
_ORIGIN = slice(len(ID_START), len(ID_START) + PREFIX_BYTES)


class _Record:
    """One publisher in the present second."""

    __slots__ = ("judged", "looked_at", "offered", "stride", "total")

    def __init__(self, stride: int) -> None:
        self.offered = 0
        self.looked_at = 0
        self.judged = 0
        self.total = 0.0
        self.stride = stride
        """Every how manieth of those offered is judged."""


class Votes:
    """Samples what a subscription receives and sums up how useful it was.

    Of a buffer the last message of each publisher is offered; when that was more than enough in the last
    second, every second, third … of them is judged in this one, and so it is with buffers. So the cost has a
    bound at any rate, and publishers that say little are heard beside those that say much.
    """

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._records: dict[bytes, _Record] = {}
        self._held: list[tuple[bytes, Message]] = []
        self._held_bytes = 0
        self._asking = False
        self._look = self._look_at_publishers if judge.opinionated else self._look_at_claim
        self._stride = 1
        """Every how manieth buffer is looked into."""
        self._buffers = 0
        self._looked_into = 0

    def offer(self, messages: list[Message]) -> None:
        """Take what came, second copies apart, a buffer at a time."""
        turn = self._buffers % self._stride
        self._buffers += 1
        if not turn and self._looked_into < 2 * BUFFERS_A_SECOND:
            self._looked_into += 1
            self._look(messages)

    def _look_at_claim(self, messages: list[Message]) -> None:
        """Without an opinion of one's own only what publishers claim counts: few do, so one is enough."""
        message = messages[-1]
        if len(message.head) > HEAD_BYTES:  # there is more in it than an id and a time
            self._look_at(message)

    def _look_at_publishers(self, messages: list[Message]) -> None:
        received: list[Any] = messages  # their heads are bytes, for they came from a broker
        last = {message.head[_ORIGIN]: message for message in received}
        for message in itertools.islice(last.values(), MAX_A_BUFFER):
            self._look_at(message)

    def _look_at(self, message: Message) -> None:
        origin = _origin_of(message)
        record = self._records.get(origin)
        if record is None:
            if len(self._records) >= MAX_PUBLISHERS:
                self._judge.note("too many publishers", "has one publisher more than are judged")
                return
            record = self._records[origin] = _Record(1)
        turn = record.offered % record.stride
        record.offered += 1
        if turn or record.looked_at >= JUDGED_A_SECOND:
            return
        record.looked_at += 1
        if self._judge.asks:
            self._hold(origin, message)
        else:
            utility = self._judge.utility(message)
            if utility is not None:
                record.judged += 1
                record.total += utility

    def _hold(self, origin: bytes, message: Message) -> None:
        size_bytes = size_of(message)
        if len(self._held) >= MAX_HELD or self._held_bytes + size_bytes > MAX_HELD_BYTES:
            self._judge.note("too many to be judged", "is one more than may wait for the utility function")
            return
        self._held.append((origin, message))
        self._held_bytes += size_bytes

    def collect(self) -> dict[str, Vote]:
        """What is to be said of the last second, by the publisher's origin; another begins."""
        if self._held and not self._asking:
            self._ask()
        votes = {
            origin.decode(errors="replace"): Vote(record.judged, record.total / record.judged)
            for origin, record in self._records.items()
            if record.judged
        }
        self._records = {
            origin: _Record(-(-record.offered // JUDGED_A_SECOND))
            for origin, record in self._records.items()
            if record.offered
        }
        self._stride = max(-(-self._buffers // BUFFERS_A_SECOND), 1)
        self._buffers = self._looked_into = 0
        return votes

    def _ask(self) -> None:
        """The user's function judges what came in this second; that is told with the next."""
        held, self._held, self._held_bytes = self._held, [], 0
        self._asking = self._judge.ask(
            [message for _, message in held], partial(self._told, [origin for origin, _ in held])
        )

    def _told(self, origins: list[bytes], utilities: Sequence[float | None]) -> None:
        self._asking = False
        for origin, utility in zip(origins, utilities, strict=True):
            if utility is not None:
                record = self._records.setdefault(origin, _Record(1))
                record.judged += 1
                record.total += utility


def largest(votes: dict[str, dict[str, Vote]], most: int = MAX_VOTES) -> dict[str, dict[str, Vote]]:
    """Of a client's votes, by subscription and origin, so many at most: those for which most was judged."""
    if sum(map(len, votes.values())) <= most:
        return votes
    every = ((key, origin, vote) for key, said in votes.items() for origin, vote in said.items())
    kept: dict[str, dict[str, Vote]] = {}
    for key, origin, vote in heapq.nlargest(most, every, lambda one: one[2].messages):
        kept.setdefault(key, {})[origin] = vote
    return kept


def _origin_of(message: Message) -> bytes:
    """Which publisher made it; all without an SDK are one."""
    head = message.head
    found = origin_and_count(head) if isinstance(head, bytes) and head else None
    return PLAIN_ORIGIN.encode() if found is None else found[0]
