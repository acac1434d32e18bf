"""What one agent holds of policies, whether it leads or not: the one in force, and one that is proposed."""

from __future__ import annotations

import math
from collections import Counter

from mangrove.control.policies.documents import MAX_DOCUMENT_BYTES, is_body_of
from mangrove.model.agents.members import PolicyRecord

FETCH_AGAIN_S = 0.5
FETCH_LOST_S = 10.0
"""A body of which nothing is heard for so long is asked for again."""


class Holdings:
    """Bodies by record. What is in force is what was committed with the highest version."""

    def __init__(self) -> None:
        self.committed: PolicyRecord | None = None
        self.body = b""
        self.held: PolicyRecord | None = None
        """A proposed policy that this agent holds."""
        self._held_body = b""
        self._wanted: dict[PolicyRecord, bool] = {}
        """Records whose bodies are wanted, and whether they are committed: two at most."""
        self._fetching: PolicyRecord | None = None
        self._fetch_at = -math.inf
        self.refused: Counter[str] = Counter()

    @property
    def version(self) -> int:
        """Of the policy in force; 0: none."""
        return 0 if self.committed is None else self.committed.version

    @property
    def highest(self) -> int:
        """Of all versions that this agent has heard of."""
        known = [self.version, *(record.version for record in self._wanted)]
        return max([*known, 0 if self.held is None else self.held.version])

    # -- what is told ---------------------------------------------------------------------------------------

    def in_force(self, record: PolicyRecord) -> bool:
        """A policy has been committed; says whether it is in force here by that, else its body is wanted."""
        if record.version <= self.version:
            return False
        if record == self.held:
            self._commit(record, self._held_body)
            return True
        self._want(record, committed=True)
        return False

    def propose(self, record: PolicyRecord) -> None:
        """The leader wants all to hold a policy."""
        if record.version > self.version and record != self.held:
            self._want(record, committed=False)

    def withdraw(self) -> None:
        """The leader proposes nothing: what was held is not going to be committed."""
        self.held, self._held_body = None, b""
        self._wanted = {record: True for record, committed in self._wanted.items() if committed}

    def hold(self, record: PolicyRecord, body: bytes) -> None:
        """This agent has the body of a proposed policy."""
        self.held, self._held_body = record, body

    def body_of(self, record: PolicyRecord) -> bytes | None:
        """The body of a policy, if it is held."""
        if record == self.held:
            return self._held_body
        return self.body if record == self.committed else None

    def fetched(self, record: PolicyRecord, body: bytes | None, now: float) -> bool:
        """A body has been read, or could not be; says whether its policy is in force by that."""
        if record == self._fetching:
            self._fetching, self._fetch_at = None, now
        committed = self._wanted.get(record)
        if committed is None:
            return False
        if body is None or not is_body_of(record, body):
            self.refused["bodies of policies that could not be read"] += 1
            self._fetch_at = now + FETCH_AGAIN_S
            return False
        del self._wanted[record]
        if committed and record.version > self.version:
            self._commit(record, body)
            return True
        if not committed and record.version > self.version:
            self.hold(record, body)
        return False

    # -- what is wanted -------------------------------------------------------------------------------------

    def timer(self) -> float:
        """When a body is to be asked for."""
        return self._fetch_at if self._wanted else math.inf

    def to_fetch(self, now: float) -> PolicyRecord | None:
        """The body that is to be read now: committed ones first."""
        if not self._wanted or now < self._fetch_at:
            return None
        self._fetching = max(self._wanted, key=lambda record: (self._wanted[record], record.version))
        self._fetch_at = now + FETCH_LOST_S
        return self._fetching

    def _want(self, record: PolicyRecord, *, committed: bool) -> None:
        if record.size_bytes > MAX_DOCUMENT_BYTES or record.size_bytes < 0 or record.chunks < 1:
            self.refused["policies that are too large"] += 1
            return
        if self._wanted.get(record) is committed:
            return
        # Only the latest of each kind counts.
        self._wanted = {old: kind for old, kind in self._wanted.items() if kind is not committed}
        self._wanted[record] = committed
        self._fetch_at = -math.inf

    def _commit(self, record: PolicyRecord, body: bytes) -> None:
        self.committed, self.body = record, body
        if self.held is not None and self.held.version <= record.version:
            self.held, self._held_body = None, b""
        self._wanted = {
            old: committed for old, committed in self._wanted.items() if old.version > record.version
        }
