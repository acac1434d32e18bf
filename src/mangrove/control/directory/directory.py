"""The directory of a domain: records by topic, each of a later epoch than those before it.

An epoch has the leader's term in its upper half and a count in the lower one, so what a new leader decides is
later than all that any earlier one did, whatever became of its last writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

import msgspec

from mangrove.model.agents.directory import DirectoryRecord
from mangrove.model.topics import Mirror

TERM_SHIFT = 32
MAX_RECORDS = 1_000_000


class MirrorPolicy(Protocol):
    """Who chooses mirrors: asked with every decision, so that a record is never of two minds."""

    def choose(
        self, topic: str, edges: tuple[str, ...], publish_at: str, present: str, since: float
    ) -> tuple[str, Mirror]:
        """The mirror of a topic that is served and published there, and how it is used."""

    def recorded(self, before: DirectoryRecord | None, after: DirectoryRecord | None) -> None:
        """What is in force from now on, if anything."""


class _Said(NamedTuple):
    """What a record says."""

    edges: tuple[str, ...] = ()
    publish_at: str = ""
    mirror: str = ""
    mode: Mirror = Mirror.NONE


class Directory:
    """Records in force, and which of them are still to be told and to be stored.

    A record without brokers, of a topic that is not mirrored either, is withdrawn: it is told once more and
    then forgotten.
    """

    def __init__(self, domain: str, mirrors: MirrorPolicy | None = None) -> None:
        self._domain = domain
        self._mirrors = mirrors
        self._term = 0
        self._count = 0
        self._records: dict[str, DirectoryRecord] = {}
        self._untold: dict[str, DirectoryRecord] = {}
        self._unstored: dict[str, DirectoryRecord] = {}
        self.ignored = 0
        """Records of the store that were older than another, or not of this domain."""

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def begin(self, term: int, records: Iterable[DirectoryRecord]) -> None:
        """A term begins, with what the store holds."""
        self.clear()
        self._term = term
        self._count = 0
        for record in records:
            known = self._records.get(record.topic)
            stale = known is not None and known.epoch >= record.epoch
            if stale or record.domain != self._domain or record.epoch >> TERM_SHIFT > term:
                self.ignored += 1
            elif record.edges or record.publish_at or record.mode:
                self._put(record.topic, known, record)

    def clear(self) -> None:
        """Somebody else keeps the directory."""
        for topic, record in list(self._records.items()):
            self._put(topic, record, None)
        self._untold.clear()
        self._unstored.clear()

    def get(self, topic: str) -> DirectoryRecord | None:
        """What is in force."""
        return self._records.get(topic)

    def edges(self, topic: str) -> tuple[str, ...]:
        """Brokers that serve a topic, the one for new subscribers first."""
        record = self._records.get(topic)
        return () if record is None else record.edges

    def publish_at(self, topic: str) -> str:
        """Where a topic is published, if not at the head."""
        record = self._records.get(topic)
        return "" if record is None else record.publish_at

    def epoch(self, topic: str) -> int:
        """Of the record in force; without one, of the last decision, so that it never falls for a topic."""
        record = self._records.get(topic)
        return (self._term << TERM_SHIFT) + self._count if record is None else record.epoch

    def decide(
        self,
        topic: str,
        *,
        edges: tuple[str, ...] | None = None,
        publish_at: str | None = None,
        decision: str,
        since: float,
    ) -> DirectoryRecord | None:
        """Put a new record in force; None if it would say the same, or if there are too many.

        The mirror is chosen anew each time, so whoever moves a topic need not think of it.
        """
        before = self._records.get(topic)
        old = (
            _Said() if before is None else _Said(before.edges, before.publish_at, before.mirror, before.mode)
        )
        new = old._replace(
            edges=old.edges if edges is None else edges,
            publish_at=old.publish_at if publish_at is None else publish_at,
        )
        if self._mirrors is not None:
            mirror, mode = self._mirrors.choose(topic, new.edges, new.publish_at, old.mirror, since)
            new = new._replace(mirror=mirror, mode=mode)
        if new == old:
            return None
        if before is None and len(self._records) >= MAX_RECORDS:
            return None
        self._count += 1
        record = DirectoryRecord(
            topic=topic,
            domain=self._domain,
            epoch=(self._term << TERM_SHIFT) + self._count,
            edges=new.edges,
            publish_at=new.publish_at,
            mirror=new.mirror,
            mode=new.mode,
            since=since,
            decision=decision,
        )
        self._put(topic, before, record if new.edges or new.publish_at or new.mode else None)
        self._untold[topic] = record
        self._unstored[topic] = record
        return record

    def renew(self, topic: str, decision: str, since: float) -> None:
        """Whatever was said of a topic before is older than what is said from now on."""
        self._count += 1
        record = self._records.get(topic)
        if record is not None:
            epoch = (self._term << TERM_SHIFT) + self._count
            renewed = msgspec.structs.replace(record, epoch=epoch, decision=decision, since=since)
            self._records[topic] = self._untold[topic] = self._unstored[topic] = renewed

    def _put(self, topic: str, before: DirectoryRecord | None, after: DirectoryRecord | None) -> None:
        if after is None:
            self._records.pop(topic, None)
        else:
            self._records[topic] = after
        if self._mirrors is not None and before is not after:
            self._mirrors.recorded(before, after)

    @property
    def untold(self) -> bool:
        """Whether something is to be pushed."""
        return bool(self._untold)

    @property
    def unstored(self) -> bool:
        """Whether something is to be stored."""
        return bool(self._unstored)

    def take_untold(self, limit: int) -> tuple[DirectoryRecord, ...]:
        """Records to be pushed, oldest decision first."""
        return _take(self._untold, limit)

    def take_unstored(self, limit: int) -> tuple[DirectoryRecord, ...]:
        """Records to be stored; what could not be is put back with `store_again`."""
        return _take(self._unstored, limit)

    def store_again(self, records: Iterable[DirectoryRecord]) -> None:
        """A write failed: unless there is a later record of its topic, it is to be stored still."""
        for record in records:
            self._unstored.setdefault(record.topic, record)


def _take(waiting: dict[str, DirectoryRecord], limit: int) -> tuple[DirectoryRecord, ...]:
    taken = [waiting[topic] for topic, _ in zip(waiting, range(limit), strict=False)]
    for record in taken:
        del waiting[record.topic]
    return tuple(taken)
