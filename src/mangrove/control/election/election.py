"""The election of a leader, without input or output: what to ask of the store, and what follows from it.

No two clocks are compared. A follower waits, by its own clock, until the record has not changed for `TTL_S`;
a leader counts its lease from before it asked for it, so that it knows of its end before anybody else does.
When the lease is free each candidate waits so much longer the more others are stronger, so that the strongest
normally takes it and one round suffices; whoever is slower is refused by compare-and-set. A leader that is
well is never replaced by a stronger newcomer.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec

from mangrove.control.election.standing import TRANSITIONS, Standing
from mangrove.model.agents.lease import LeaseRecord

TTL_S = 3.0
RENEW_S = 1.0
RETRY_S = 0.5
RANK_S = 0.15
"""A candidate waits so long for each that is stronger."""
HEAD_START_S = 1.0
"""Others wait so long for the successor that a leader has named."""


class ReadLease(msgspec.Struct, frozen=True):
    """Tell what the record is; `found` follows."""


class PutLease(msgspec.Struct, frozen=True):
    """Write the record if its revision is still `last`; `written` or `refused` follows."""

    record: LeaseRecord
    last: int


Wish = ReadLease | PutLease


class Election:
    """One agent's part. One wish is open at a time, until it is answered or `unanswered` is called."""

    def __init__(
        self,
        agent: str,
        holder: str,
        *,
        first_term: int,
        rank: Callable[[str], int] = lambda _last_leader: 0,
        ttl_s: float = TTL_S,
    ) -> None:
        """`first_term` is that of a store that holds nothing. `rank` says how many candidates are stronger,
        apart from the agent that led last."""
        self._agent = agent
        self._holder = holder
        self._first_term = first_term
        self._rank = rank
        self._ttl_s = ttl_s
        self.standing = Standing.FOLLOWING
        self.term = 0
        """In which this agent led last."""
        self.leader = ""
        """The agent that leads, as far as is known."""
        self.revision = 0
        """Of our own record, while we lead."""
        self._ends = -math.inf
        self._seen_revision = -1
        self._seen_at = -math.inf
        """Since when the record has been the same."""
        self._highest_term = 0
        self._due = -math.inf
        self._asked = -math.inf
        self._open: Wish | None = None
        self._last: LeaseRecord | None = None
        """The record that is free, while we wait for our turn."""
        self._turn = (-1, -math.inf)
        """The revision of a record that is free, and when it is our turn to take it."""
        self._stepped_down_at = -math.inf
        self._release: PutLease | None = None
        """What is still to be written of having stepped down."""

    # -- questions ------------------------------------------------------------------------------------------

    def held(self, now: float) -> bool:
        """Whether this agent leads at this moment."""
        leading = self.standing in (Standing.LEADING, Standing.UNSURE)
        return leading and now < self._ends

    def timer(self) -> float:
        """When `turn` has something to ask, if nothing is told before."""
        if self._open is not None:
            return math.inf
        return -math.inf if self._release is not None else self._due

    # -- what is asked --------------------------------------------------------------------------------------

    def turn(self, now: float) -> Wish | None:
        """What to ask of the store now; nothing before `timer`."""
        if self._open is not None or now < self.timer():
            return None
        if self._release is not None:
            self._open = self._release
            return self._open
        if self.standing in (Standing.LEADING, Standing.UNSURE) and now >= self._ends:
            self._lose()
        self._asked = now
        match self.standing:
            case Standing.LEADING:
                record = self._own(self.term, beat=self.revision)
                self._open = PutLease(record, self.revision)
            case Standing.WAITING:
                self._become(Standing.TAKING)
                self._open = PutLease(self._own(self._next_term()), max(self._seen_revision, 0))
            case _:
                self._open = ReadLease()
        return self._open

    def look(self, now: float) -> None:
        """Something is said of the lease elsewhere, or one wants to know: ask at once.

        Who waits for its turn has it no sooner by that, but hears if somebody else was faster.
        """
        if self.standing is Standing.WAITING:
            self._become(Standing.FOLLOWING)
        self._due = min(self._due, now)

    def step_down(self, successor: str, now: float) -> None:
        """Lead no more from now on; that is written next, so that nobody need wait for the lease to end."""
        if self.held(now):
            free = LeaseRecord(holder="", agent=self._agent, term=self.term, successor=successor)
            self._release = PutLease(free, self.revision)
            self._lose()
            self._stepped_down_at, self._due = now, now + RENEW_S

    # -- what is answered -----------------------------------------------------------------------------------

    def found(self, record: LeaseRecord | None, revision: int, now: float) -> None:
        """The record as it is in the store; one that cannot be read counts as none, and is replaced."""
        self._open = None
        self.leader = record.agent if record is not None and record.holder else ""
        if record is not None:
            self._highest_term = max(self._highest_term, record.term)
        if revision != self._seen_revision:
            self._seen_revision, self._seen_at = revision, now
        ours = record is not None and record.holder == self._holder
        if self.standing is Standing.UNSURE:
            if ours and record is not None and record.term == self.term and now < self._ends:
                self.revision = revision
                self._become(Standing.LEADING)
                self._due = now
                return
            self._lose()
        taken = record is not None and record.holder and not ours
        if taken and self._asked - self._seen_at < self._ttl_s:
            self._due = min(now + RENEW_S, self._seen_at + self._ttl_s)
            return
        self._last = record
        self._become(Standing.WAITING)
        if self._turn[0] != revision:
            self._turn = (revision, self._turn_at(record, now))
        self._due = self._turn[1]

    def written(self, revision: int, now: float) -> None:
        """The record is as we wanted it."""
        wish, self._open = self._open, None
        if not isinstance(wish, PutLease):
            return
        if self._release is not None:  # of a renewal that was under way when we stepped down, or of that
            self._release = None if wish is self._release else PutLease(self._release.record, revision)
            return
        if self.standing is Standing.TAKING:
            self.term = wish.record.term
            self._highest_term = max(self._highest_term, self.term)
            self._become(Standing.LEADING)
        elif self.standing is Standing.LEADING and now >= self._ends:
            # It ended before we heard: whoever looked has stopped, and what begins now is another term.
            self._lose()
            self._due = now
        if self.standing is not Standing.LEADING:
            return
        self.leader = self._agent
        self.revision = revision
        self._ends = self._asked + self._ttl_s
        self._due = max(now, self._asked + RENEW_S)

    def refused(self, now: float) -> None:
        """The record has another revision than we thought: we look again."""
        wish, self._open = self._open, None
        if not isinstance(wish, PutLease):
            return
        self._release = None
        if self.standing is Standing.LEADING:
            self._become(Standing.UNSURE)
        elif self.standing is Standing.TAKING:
            self._become(Standing.FOLLOWING)
        self._due = now

    def unanswered(self, now: float) -> None:
        """Nothing was heard of what we asked; a write may have come about."""
        self._open = self._release = None
        if self.standing is Standing.TAKING:
            self._become(Standing.FOLLOWING)
        self._due = now + RETRY_S

    # -- steps ----------------------------------------------------------------------------------------------

    def _turn_at(self, record: LeaseRecord | None, now: float) -> float:
        """When it is this candidate's turn to take a lease that is free."""
        if record is None:
            return now + RANK_S * self._rank("")
        if record.successor == self._agent:
            return now
        wait_s = RANK_S * self._rank(record.agent)
        if record.successor and not record.holder:
            wait_s += HEAD_START_S
        return max(now, self._stepped_down_at + 2 * HEAD_START_S) + wait_s

    def _next_term(self) -> int:
        return max(self._highest_term + 1, self._first_term if self._last is None else 1)

    def _own(self, term: int, beat: int = 0) -> LeaseRecord:
        return LeaseRecord(holder=self._holder, agent=self._agent, term=term, beat=beat)

    def _lose(self) -> None:
        self._become(Standing.FOLLOWING)
        self.revision, self._ends = 0, -math.inf
        if self.leader == self._agent:
            self.leader = ""

    def _become(self, standing: Standing) -> None:
        if standing is not self.standing:
            assert standing in TRANSITIONS[self.standing], (self.standing, standing)
            self.standing = standing
