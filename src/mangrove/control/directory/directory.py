"""The directory of a domain: records by topic, each of a later epoch than those before it.

An epoch has the leader's term in its upper half and a count in the lower one, so what a new leader decides is
later than all that any earlier one did, whatever became of its last writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from mangrove.model.agents.directory import DirectoryRecord

TERM_SHIFT = 32
MAX_RECORDS = 1_000_000


class Directory:
    """Records in force, and which of them are still to be told and to be stored.

    A record without brokers is withdrawn: it is told once more and then forgotten.
    """

    def __init__(self, domain: str) -> None:
        self._domain = domain
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
            elif record.edges or record.publish_at:
                self._records[record.topic] = record

    def clear(self) -> None:
        """Somebody else keeps the directory."""
        self._records.clear()
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
        """Put a new record in force; None if it would say the same, or if there are too many."""
        before = self._records.get(topic)
        old_edges, old_place = ((), "") if before is None else (before.edges, before.publish_at)
        new_edges = old_edges if edges is None else edges
        new_place = old_place if publish_at is None else publish_at
        if (new_edges, new_place) == (old_edges, old_place):
            return None
        if before is None and len(self._records) >= MAX_RECORDS:
            return None
        self._count += 1
        record = DirectoryRecord(
            topic=topic,
            domain=self._domain,
            epoch=(self._term << TERM_SHIFT) + self._count,
            edges=new_edges,
            publish_at=new_place,
            since=since,
            decision=decision,
        )
        if new_edges or new_place:
            self._records[topic] = record
        else:
            self._records.pop(topic, None)
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
