"""What is written to the store, and what became of it."""

from __future__ import annotations

import math
from itertools import count

from mangrove.control.directory.directory import Directory
from mangrove.control.events.happenings import StoreFound, StoreLost
from mangrove.control.instructions import Instruction, Store, StoreWrite
from mangrove.model.agents.directory import DirectoryRecord, stored_record
from mangrove.model.events.event_log import EventId, EventLog

DIRECTORY = "directory"
SESSIONS = "sessions"
MAX_RECORDS_A_WRITE = 2_000
RETRY_S = 1.0
LOST_S = 10.0
"""A write of which nothing is heard for so long is taken to have failed."""


class StoreWrites:
    """Numbers all writes. Of the directory one write is under way at a time, and what fails is repeated."""

    def __init__(self, directory: Directory, log: EventLog) -> None:
        self._directory = directory
        self._log = log
        self._numbers = count(1)
        self._records: tuple[DirectoryRecord, ...] = ()
        self._write = -1
        self._sent_at = -math.inf
        self.retry_at = -math.inf
        self.problem = ""
        self.lost_by: EventId | None = None
        self.failures = 0

    def number(self) -> int:
        """For the next write."""
        return next(self._numbers)

    def clear(self) -> None:
        """Somebody else writes."""
        self._records, self._write, self.problem, self.lost_by = (), -1, "", None

    def flush(self, now: float) -> list[Instruction]:
        """Write what changed in the directory, unless a write is under way."""
        if self._write >= 0 or now < self.retry_at:
            return []
        self._records = self._directory.take_unstored(MAX_RECORDS_A_WRITE)
        if not self._records:
            return []
        self._write, self._sent_at = self.number(), now
        return [Store(self._write, tuple(map(_record_write, self._records)))]

    @property
    def ready(self) -> bool:
        """Whether something of the directory waits to be written, and no write is under way."""
        return self._write < 0 and self._directory.unstored

    def timer(self) -> float:
        """When a write is given up."""
        return self._sent_at + LOST_S if self._write >= 0 else math.inf

    def handle_timer(self, now: float) -> None:
        """Give up a write of which nothing was heard."""
        if now >= self.timer():
            self.failed(self._write, "nothing was heard of a write", now)

    def stored(self, write: int, now: float) -> None:
        """A write, this one or another's, is in the store."""
        if self.problem:
            self.problem = ""
            self._log.note(StoreFound(), now, self.lost_by)
        if write == self._write:
            self._records, self._write = (), -1

    def failed(self, write: int, problem: str, now: float) -> None:
        """A write did not come about in time."""
        self.failures += 1
        if not self.problem:
            self.lost_by = self._log.note(StoreLost(problem=problem), now)
        self.problem = problem or "it failed"
        if write == self._write:
            self._directory.store_again(self._records)
            self._records, self._write, self.retry_at = (), -1, now + RETRY_S


def _record_write(record: DirectoryRecord) -> StoreWrite:
    in_force = record.edges or record.publish_at
    return StoreWrite(DIRECTORY, record.topic, stored_record(record) if in_force else None)
