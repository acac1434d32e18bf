"""Puts documents in force in two phases, as the leader of one term (RQMOM §4.6).

A document is stored and proposed; every member holds it and says so; then it is committed. A member that does
not say so within `ACKNOWLEDGE_S` is removed from the membership first, so that "all" can be reached. Of a
proposal that an earlier leader left, a new one commits what all live members hold by then, and discards what
one of them lacks. What is committed is so because the store says so, under this leader's fence: nobody is
told before.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from mangrove.control.events.member_happenings import (
    MembersChanged,
    PolicyCommitted,
    PolicyDiscarded,
    PolicyProposed,
)
from mangrove.control.instructions import Instruction, Store, StoreWrite
from mangrove.control.policies.documents import MAX_DOCUMENT_BYTES, record_of
from mangrove.control.policies.holdings import Holdings
from mangrove.control.policies.membership import Membership
from mangrove.control.policies.phases import TRANSITIONS, Phase
from mangrove.control.policies.stored import (
    FoundPolicies,
    body_removals,
    body_writes,
    committed_write,
    members_write,
    proposed_write,
)
from mangrove.model.agents.members import PolicyRecord
from mangrove.model.events.event_log import EventId, EventLog

ACKNOWLEDGE_S = 2.0
RETRY_S = 1.0
LOST_S = 10.0
"""A write of which nothing is heard for so long is made again."""
MAX_WAITING = 8
WRITING = (Phase.JOINING, Phase.STORING, Phase.REMOVING, Phase.COMMITTING, Phase.DISCARDING)


class Refused(NamedTuple):
    """A document that will not be in force, and why."""

    body: bytes
    reason: str


class Replication:
    """One document at a time; others wait."""

    def __init__(
        self,
        membership: Membership,
        holdings: Holdings,
        log: EventLog,
        *,
        term: int,
        number: Callable[[], int],
        found: FoundPolicies,
    ) -> None:
        self._membership = membership
        self._holdings = holdings
        self._log = log
        self._term = term
        self._number = number
        self._found = found
        self.phase = Phase.IDLE
        self.members: tuple[str, ...] = found.members or (membership.own,)
        self._epoch = found.epoch
        self._highest = found.highest
        self._record: PolicyRecord | None = None
        self._completes = False
        self._waiting: deque[bytes] = deque()
        self._refused: list[Refused] = []
        self._write = -1
        self._until = math.inf
        """When the phase is over, or its write is made again."""
        self._writes: Sequence[StoreWrite] = ()
        self._previous: PolicyRecord | None = None
        self._cause: EventId | None = None

    @property
    def proposed(self) -> PolicyRecord | None:
        """What all are to hold."""
        proposing = (Phase.RECOVERING, Phase.PREPARING, Phase.REMOVING, Phase.COMMITTING)
        return self._record if self.phase in proposing else None

    def begin(self, now: float) -> list[Instruction]:
        """Go on with what an earlier leader left."""
        found, holdings = self._found, self._holdings
        if found.committed is not None:
            holdings.in_force(found.committed)
        stored = 0 if found.committed is None else found.committed.version
        if holdings.committed is not None and holdings.version > stored:
            # The store has lost what was in force: it is put there again.
            self._record, self._completes = holdings.committed, True
            return self._commit(body_writes(holdings.committed, holdings.body), now)
        if found.proposed is not None and found.proposed.version > stored:
            self._record, self._completes = found.proposed, True
            self._become(Phase.RECOVERING)
            self._until = now + ACKNOWLEDGE_S
            holdings.propose(found.proposed)
        elif holdings.held is not None and holdings.held.version > stored:
            holdings.withdraw()
        return self.look(now)

    # -- what is asked --------------------------------------------------------------------------------------

    def propose(self, body: bytes, now: float) -> list[Instruction]:
        """Put a document in force, as soon as those before it are or are not."""
        if len(body) > MAX_DOCUMENT_BYTES:
            self._refused.append(Refused(body, f"it is larger than {MAX_DOCUMENT_BYTES >> 20} MB"))
        elif self.phase is Phase.DISCARDING:
            self._refused.append(Refused(body, "the store did not take the one before; try again later"))
        elif len(self._waiting) >= MAX_WAITING:
            self._refused.append(Refused(body, f"{MAX_WAITING} others wait already"))
        else:
            self._waiting.append(body)
        return self.look(now)

    def take_refused(self) -> list[Refused]:
        """Documents that will not be in force."""
        refused, self._refused = self._refused, []
        return refused

    # -- what happens ---------------------------------------------------------------------------------------

    def look(self, now: float) -> list[Instruction]:
        """A member said something, or time has passed."""
        match self.phase:
            case Phase.IDLE:
                joining = self._join(now)
                if joining or not self._waiting:
                    return joining
                return self._store(self._waiting.popleft(), now)
            case Phase.PREPARING | Phase.RECOVERING:
                return self._count(now)
            case _ if now >= self._until and self.phase in WRITING:
                return self._write_again(now)
            case _:
                return []

    def timer(self) -> float:
        """When `look` is to be called, if nothing happens before."""
        return math.inf if self.phase is Phase.IDLE else self._until

    def stored(self, write: int, now: float) -> list[Instruction]:
        """A write is in the store."""
        if write != self._write:
            return []
        self._write = -1
        match self.phase:
            case Phase.STORING:
                self._become(Phase.PREPARING)
                self._until = now + ACKNOWLEDGE_S
            case Phase.REMOVING:
                return self._commit([], now)
            case Phase.COMMITTING:
                return [*self._committed(now), *self.look(now)]
            case Phase.JOINING | Phase.DISCARDING:
                self._become(Phase.IDLE)
            case _:
                pass
        return self.look(now)

    def failed(self, write: int, problem: str, now: float) -> list[Instruction]:
        """A write did not come about in time; it may have, nevertheless."""
        if write != self._write:
            return []
        self._write = -1
        if self.phase is Phase.STORING:
            assert self._record is not None
            body = self._holdings.body_of(self._record)
            self._refused.append(Refused(body or b"", f"it could not be stored: {problem}"))
            return self._discard(f"it could not be stored: {problem}", now)
        self._until = now + RETRY_S
        return []

    # -- steps ----------------------------------------------------------------------------------------------

    def _store(self, body: bytes, now: float) -> list[Instruction]:
        highest = max(self._highest, self._holdings.highest)
        for agent in self._membership.live(now):
            member = self._membership.get(agent)
            if member is not None:
                known = (member.beat.held, member.beat.committed)
                highest = max([highest, *(record.version for record in known if record is not None)])
        record = self._record = record_of(highest + 1, body)
        self._highest, self._completes = record.version, False
        self._holdings.hold(record, body)
        self._cause = self._log.note(
            PolicyProposed(version=record.version, size_bytes=record.size_bytes, members=self.members), now
        )
        self._become(Phase.STORING)
        return self._put([*body_writes(record, body), proposed_write(record, self._term)], now)

    def _count(self, now: float) -> list[Instruction]:
        """Who holds it by now."""
        record = self._record
        assert record is not None
        holds = {agent for agent in self.members if self._holds(agent, record)}
        recovering = self.phase is Phase.RECOVERING
        if recovering and self._holdings.body_of(record) is None:
            return [] if now < self._until else self._discard("its body cannot be read any more", now)
        if holds.issuperset(self.members):
            return self._commit([], now)
        if now < self._until:
            return []
        silent = tuple(agent for agent in self.members if agent not in holds)
        if recovering and (lacking := [each for each in silent if self._membership.is_live(each, now)]):
            return self._discard(f"{', '.join(lacking)} did not get it from the leader before", now)
        self._become(Phase.REMOVING)
        self.members = tuple(agent for agent in self.members if agent in holds or agent == self._own)
        self._epoch += 1
        self._log.note(MembersChanged(members=self.members, left_out=silent), now, self._cause)
        return self._put([members_write(self.members, self._epoch)], now)

    def _holds(self, agent: str, record: PolicyRecord) -> bool:
        if agent == self._own:
            return self._holdings.body_of(record) is not None
        member = self._membership.get(agent)
        return member is not None and record in (member.beat.held, member.beat.committed)

    def _commit(self, before: list[StoreWrite], now: float) -> list[Instruction]:
        assert self._record is not None
        self._become(Phase.COMMITTING)
        self._previous = self._holdings.committed
        return self._put([*before, committed_write(self._record, self._term)], now)

    def _committed(self, now: float) -> list[Instruction]:
        record, self._record = self._record, None
        assert record is not None
        self._holdings.in_force(record)
        completed = PolicyCommitted(version=record.version, members=self.members, completed=self._completes)
        self._log.note(completed, now, self._cause)
        self._cause = None
        self._become(Phase.IDLE)
        before = self._previous
        if before is None or before.version >= record.version:
            return []
        # What becomes of this is of no consequence: nobody asks for it any more.
        return [Store(self._number(), tuple(body_removals(before)))]

    def _discard(self, reason: str, now: float) -> list[Instruction]:
        record, self._record = self._record, None
        assert record is not None
        self._log.note(PolicyDiscarded(version=record.version, reason=reason), now, self._cause)
        self._cause = None
        self._holdings.withdraw()
        self._become(Phase.DISCARDING)
        return self._put([proposed_write(record, self._term, discarded=True), *body_removals(record)], now)

    def _join(self, now: float) -> list[Instruction]:
        """Agents that live and are no members become some; they learn what is in force from the beats."""
        joined = tuple(sorted({*self.members, *self._membership.live(now)}))
        if joined == tuple(sorted(self.members)):
            return []
        self.members = joined
        self._epoch += 1
        self._log.note(MembersChanged(members=joined), now)
        self._become(Phase.JOINING)
        return self._put([members_write(joined, self._epoch)], now)

    def _put(self, writes: Sequence[StoreWrite], now: float) -> list[Instruction]:
        self._write, self._writes, self._until = self._number(), writes, now + LOST_S
        return [Store(self._write, tuple(writes))]

    def _write_again(self, now: float) -> list[Instruction]:
        return self._put(self._writes, now)

    @property
    def _own(self) -> str:
        return self._membership.own

    def _become(self, phase: Phase) -> None:
        assert phase in TRANSITIONS[self.phase], (self.phase, phase)
        self.phase = phase
