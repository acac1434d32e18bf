"""A store of several agents: one record for the lease, buckets behind a fence, and a network before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from mangrove.control.instructions import Store
from mangrove.control.policies.documents import chunk_key
from mangrove.control.policies.stored import found_policies
from mangrove.model.agents.directory import DirectoryRecord
from mangrove.model.agents.lease import LeaseRecord
from mangrove.model.agents.members import PolicyRecord

R = TypeVar("R")


class SharedStore:
    """What a majority of the management brokers holds. Everything happens at one moment, in one order."""

    def __init__(self, problem: Callable[[str], None]) -> None:
        self.away = False
        self.lease: LeaseRecord | None = None
        self.lease_revision = 0
        self.fence = 0
        """The term of the leader that raised it last."""
        self.fenced = True
        """Whether writes of earlier terms are refused, as they are; not so in a test of the check."""
        self.values: dict[str, dict[str, bytes]] = {"directory": {}, "sessions": {}, "policies": {}}
        self.refused = 0
        """Late writes of deposed leaders that the fence kept out."""
        self._problem = problem

    def put_lease(self, record: LeaseRecord, last: int) -> int | None:
        """Write the record if its revision is `last`: the new one, or None."""
        if last != self.lease_revision:
            return None
        self.lease, self.lease_revision = record, self.lease_revision + 1
        return self.lease_revision

    def raise_fence(self, term: int) -> bool:
        """Refuse earlier leaders' writes; False if a later leader has raised it."""
        if term < self.fence:
            return False
        self.fence = term
        return True

    def write(self, store: Store, term: int) -> bool:
        """Carry out a leader's write; False if it is refused."""
        if term != self.fence:
            if self.fenced:
                self.refused += 1
                return False
            self._problem(f"a write of term {term} came about in term {self.fence}")
        for write in store.writes:
            bucket = self.values[write.bucket]
            if write.value is None:
                bucket.pop(write.key, None)
            else:
                bucket[write.key] = write.value
        return True

    def document(self, record: PolicyRecord) -> bytes | None:
        """The body of a policy, if all of it is there."""
        chunks = [
            self.values["policies"].get(chunk_key(record.version, number)) for number in range(record.chunks)
        ]
        return None if None in chunks else b"".join(chunk for chunk in chunks if chunk is not None)

    def committed(self) -> PolicyRecord | None:
        """The policy in force."""
        return found_policies(self.values["sessions"].values()).committed

    def directory(self) -> tuple[DirectoryRecord, ...]:
        """All records."""
        values = self.values["directory"].values()
        return tuple(msgspec.json.decode(value, type=DirectoryRecord) for value in values)

    def sessions(self) -> tuple[bytes, ...]:
        """All that is stored beside the directory."""
        return tuple(self.values["sessions"].values())
