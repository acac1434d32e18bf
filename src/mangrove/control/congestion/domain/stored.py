"""What of congestion control outlives an agent: limits in force, and capacities that were told."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

import msgspec

from mangrove.control.congestion.controller import Limit
from mangrove.control.congestion.domain.capacities import Parts
from mangrove.control.congestion.planning import Key
from mangrove.control.instructions import Instruction, Store, StoreWrite
from mangrove.control.store_writes import SESSIONS
from mangrove.model.unreadable import UNREADABLE

LIMITS_KEY = "congestion"
CAPACITIES_KEY = "capacities"
MAX_STORED = 2_000
"""Limits that a successor is told of; the others it learns when it plans."""
EVERY_S = 2.0
"""Limits are written down at most so often."""
LOST_S = 10.0
"""A write of which nothing is heard for so long is made again."""


class StoredLimit(msgspec.Struct, frozen=True, array_like=True):
    """A limit in force."""

    topic: str
    publisher: str
    msg_s: float
    utility: float
    importance: float
    offered_msg_s: float
    probing: bool
    brokers: tuple[str, ...]


class StoredLimits(msgspec.Struct, frozen=True, kw_only=True, tag="limits"):
    """Limits because of congestion, and the brokers that are short."""

    brokers: tuple[str, ...]
    limits: tuple[StoredLimit, ...]


class StoredCapacities(msgspec.Struct, frozen=True, kw_only=True, tag="capacities"):
    """Parts of capacities that are left."""

    parts: dict[str, Parts]


_decoder: msgspec.json.Decoder[StoredLimits | StoredCapacities] = msgspec.json.Decoder(
    StoredLimits | StoredCapacities
)


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What an earlier leader left."""

    limits: StoredLimits | None = None
    parts: dict[str, Parts] = {}

    def in_force(self, now: float) -> dict[Key, Limit]:
        """Its limits, as those of this leader."""
        kept = () if self.limits is None else self.limits.limits
        return {
            (each.topic, each.publisher): Limit(
                each.msg_s,
                now,
                each.utility,
                each.importance,
                each.offered_msg_s,
                each.brokers,
                each.probing,
            )
            for each in kept
            if each.msg_s >= 0.0
        }


def found_in(records: Iterable[bytes]) -> Found:
    """Among everything that the store had."""
    limits: StoredLimits | None = None
    parts: dict[str, Parts] = {}
    for value in records:
        try:
            record = _decoder.decode(value)
        except UNREADABLE:
            continue
        if isinstance(record, StoredLimits):
            limits = record
        else:
            parts = record.parts
    return Found(limits=limits, parts=parts)


class CongestionRecords:
    """Writes both records when they have changed, one write at a time."""

    def __init__(self, number: Callable[[], int], found: Found) -> None:
        self._number = number
        self._dirty: dict[str, bytes | None] = {}
        self._written_at = -math.inf
        self._write = -1
        self._sent: dict[str, bytes | None] = {}
        self._has_limits = found.limits is not None

    def capacities_changed(self, parts: Mapping[str, Parts]) -> None:
        """Another capacity was told."""
        record = StoredCapacities(parts=dict(parts))
        self._dirty[CAPACITIES_KEY] = msgspec.json.encode(record) if parts else None

    def limits_changed(self, brokers: tuple[str, ...], limits: Mapping[Key, Limit]) -> None:
        """Other limits are in force; they are put together when they are written."""
        if not limits and not self._has_limits and LIMITS_KEY not in self._dirty:
            return
        self._has_limits = bool(limits)
        self._dirty[LIMITS_KEY] = msgspec.json.encode(_record(brokers, limits)) if limits else None

    def flush(self, now: float) -> list[Instruction]:
        """Write what has changed, unless a write is under way or was just made."""
        if self._write >= 0 and now >= self._written_at + LOST_S:
            self.failed(self._write)
        soon = CAPACITIES_KEY in self._dirty or now >= self._written_at + EVERY_S
        if not self._dirty or self._write >= 0 or not soon:
            return []
        self._sent, self._dirty = self._dirty, {}
        self._write, self._written_at = self._number(), now
        return [Store(self._write, tuple(StoreWrite(SESSIONS, *each) for each in self._sent.items()))]

    def stored(self, write: int) -> None:
        """A write is in the store."""
        if write == self._write:
            self._write, self._sent = -1, {}

    def failed(self, write: int) -> None:
        """A write did not come about: it is made again, unless something newer waits."""
        if write == self._write:
            self._dirty = self._sent | self._dirty
            self._write, self._sent = -1, {}


def _record(brokers: tuple[str, ...], limits: Mapping[Key, Limit]) -> StoredLimits:
    strictest = sorted(limits.items(), key=lambda each: each[1].msg_s - each[1].offered_msg_s)[:MAX_STORED]
    return StoredLimits(
        brokers=brokers,
        limits=tuple(
            StoredLimit(
                topic,
                publisher,
                limit.msg_s,
                limit.utility,
                limit.importance,
                limit.offered_msg_s,
                limit.probing,
                limit.brokers,
            )
            for (topic, publisher), limit in strictest
        ),
    )
