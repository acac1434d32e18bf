"""What of failures outlives an agent: which brokers the directory does without, and who decided it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

import msgspec

from mangrove.control.instructions import Instruction, Store, StoreWrite
from mangrove.control.store_writes import SESSIONS
from mangrove.model.unreadable import UNREADABLE

FAILURES_KEY = "failures"
LOST_S = 10.0
"""A write of which nothing is heard for so long is made again."""
RETRY_S = 1.0


class StoredFailure(msgspec.Struct, frozen=True, kw_only=True):
    """A broker whose topics are served by others."""

    failed_by: str
    """The event that told of its death."""
    decided_by: str
    restarts: int = 0
    """How often it was ordered to be started anew."""
    restarted_at: float = 0.0
    """The last time, in seconds since 1970."""


class StoredFailures(msgspec.Struct, frozen=True, kw_only=True, tag="failures"):
    """All of them, by broker."""

    brokers: dict[str, StoredFailure]


_decoder = msgspec.json.Decoder(StoredFailures)


def failures_in(records: Iterable[bytes]) -> dict[str, StoredFailure]:
    """Among everything that the store had."""
    found: dict[str, StoredFailure] = {}
    for value in records:
        try:
            found = _decoder.decode(value).brokers
        except UNREADABLE:
            continue  # somebody else's
    return found


def encoded(brokers: Mapping[str, StoredFailure]) -> bytes | None:
    """As the store has it; nothing when there are none."""
    return msgspec.json.encode(StoredFailures(brokers=dict(brokers))) if brokers else None


class RecordWriter:
    """Writes one record when it has changed, one write at a time; what fails is made again."""

    def __init__(self, key: str, number: Callable[[], int]) -> None:
        self._key = key
        self._number = number
        self._wanted: bytes | None = None
        self._changed = False
        self._write = -1
        self._due = -math.inf

    def changed(self, value: bytes | None) -> None:
        """It has this value from now on; None removes it."""
        self._wanted = value
        self._changed = True

    def flush(self, now: float) -> list[Instruction]:
        """Write what has changed, unless a write is under way."""
        if self._write >= 0 and now >= self._due:
            self.failed(self._write, now - RETRY_S)
        if not self._changed or self._write >= 0 or now < self._due:
            return []
        self._changed = False
        self._write, self._due = self._number(), now + LOST_S
        return [Store(self._write, (StoreWrite(SESSIONS, self._key, self._wanted),))]

    def timer(self) -> float:
        """When to be called again."""
        return self._due if self._write >= 0 or self._changed else math.inf

    def stored(self, write: int) -> None:
        """A write is in the store."""
        if write == self._write:
            self._write, self._due = -1, -math.inf

    def failed(self, write: int, now: float) -> None:
        """A write did not come about."""
        if write == self._write:
            self._write, self._due, self._changed = -1, now + RETRY_S, True
