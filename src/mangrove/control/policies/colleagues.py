"""An agent among the others of its domain, whether it leads or not: it beats, listens, and holds policies."""

from __future__ import annotations

import math

from mangrove.control.instructions import FetchPolicy, Instruction, TellMembers
from mangrove.control.policies.holdings import Holdings
from mangrove.control.policies.membership import Membership
from mangrove.control.policies.replication import Replication
from mangrove.model.agents.members import BEAT_S, MemberBeat, PolicyRecord
from mangrove.model.agents.status import MemberStatus


class Colleagues:
    """Lives as long as the process; the leader's part of it, `Replication`, as long as a term."""

    def __init__(self, membership: Membership, life: int) -> None:
        """`life` names this process among those that had its name before."""
        self.membership = membership
        self.holdings = Holdings()
        self.term = 0
        """The latest in which anybody was heard to lead."""
        self._life = life
        self._sequence = 0
        self._beat_at = -math.inf
        self._said: tuple[object, ...] = ()

    def heard(self, beat: MemberBeat, now: float, *, leading: bool) -> None:
        """Another agent has said something."""
        before = self.membership.get(beat.agent)
        if not self.membership.heard(beat, now):
            return
        if before is None or before.beat.life != beat.life:
            self._said = ()  # it does not know of this one yet
        if beat.leads and beat.term >= self.term and not leading:
            self.term = beat.term
            self._follow(beat)
        self.term = max(self.term, beat.term)

    def _follow(self, leader: MemberBeat) -> None:
        if leader.committed is not None:
            self.holdings.in_force(leader.committed)
        if leader.proposed is not None:
            self.holdings.propose(leader.proposed)
        elif self.holdings.held is not None:
            self.holdings.withdraw()

    def fetched(self, record: PolicyRecord, body: bytes | None, now: float) -> None:
        """A body was read, or could not be."""
        self.holdings.fetched(record, body, now)

    def afterwards(self, term: int, replication: Replication | None, now: float) -> list[Instruction]:
        """What is wanted of the store, and what others should know at once or from time to time.

        `replication` is that of the leader; None: this agent follows.
        """
        told: list[Instruction] = []
        record = self.holdings.to_fetch(now)
        if record is not None:
            told.append(FetchPolicy(record))
        if self.membership.alone:
            return told
        self.term = max(self.term, term)
        proposed = None if replication is None else replication.proposed
        leads = replication is not None
        said = (self.term, leads, self.holdings.committed, self.holdings.held, proposed)
        if said != self._said or now >= self._beat_at:
            self._said, self._beat_at = said, now + BEAT_S
            self._sequence += 1
            told.append(TellMembers(self._beat(leads, proposed)))
        return told

    def timer(self) -> float:
        """When `afterwards` is to be called, if nothing happens before."""
        return min(self.holdings.timer(), math.inf if self.membership.alone else self._beat_at)

    def _beat(self, leads: bool, proposed: PolicyRecord | None) -> MemberBeat:
        return MemberBeat(
            agent=self.membership.own,
            life=self._life,
            sequence=self._sequence,
            score=self.membership.score,
            term=self.term,
            leads=leads,
            committed=self.holdings.committed,
            held=self.holdings.held,
            proposed=proposed,
        )

    def status(self, replication: Replication | None, now: float) -> tuple[MemberStatus, ...]:
        """All agents that the domain has by its file."""
        members = None if replication is None else replication.members
        return tuple(self._status(agent, members, now) for agent in sorted(self.membership.agents))

    def _status(self, agent: str, members: tuple[str, ...] | None, now: float) -> MemberStatus:
        heard, host = self.membership.get(agent), self.membership.agents[agent]
        counted = members is None or agent in members
        if agent == self.membership.own:
            held = self.holdings.held
            return MemberStatus(
                agent=agent,
                host=host,
                live=True,
                score=self.membership.score,
                policy=self.holdings.version,
                held=0 if held is None else held.version,
                member=counted,
            )
        if heard is None:
            return MemberStatus(agent=agent, host=host, live=False, member=counted)
        beat = heard.beat
        return MemberStatus(
            agent=agent,
            host=host,
            live=self.membership.is_live(agent, now),
            score=beat.score,
            heard_s=now - heard.heard_at,
            policy=0 if beat.committed is None else beat.committed.version,
            held=0 if beat.held is None else beat.held.version,
            member=counted,
        )
