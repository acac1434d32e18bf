"""Which agents of the domain live, by what they say; and who of them is stronger."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

import msgspec

from mangrove.model.agents.members import LIVE_S, MemberBeat

UNKNOWN = "beats of agents that the domain does not have"
STALE = "beats that came after later ones"
IMPOSSIBLE = "beats with impossible figures"


class Member(msgspec.Struct):
    """Another agent, as heard last."""

    beat: MemberBeat
    heard_at: float


class Membership:
    """Bounded by the agents that the federation file gives the domain."""

    def __init__(self, agents: Mapping[str, str], own: str, score: float) -> None:
        """`agents` are names and hosts; `own` is this one."""
        self.agents = dict(agents)
        self.own = own
        self.score = score
        self.refused: Counter[str] = Counter()
        self._heard: dict[str, Member] = {}

    @property
    def alone(self) -> bool:
        """Whether the domain can have no other agent."""
        return not self.agents.keys() - {self.own}

    def heard(self, beat: MemberBeat, now: float) -> bool:
        """Take what a member says; False if it is not to be believed, or nothing new."""
        if beat.agent == self.own:
            return False
        if beat.agent not in self.agents:
            self.refused[UNKNOWN] += 1
            return False
        if not math.isfinite(beat.score) or beat.score < 0 or beat.term < 0 or beat.sequence < 0:
            self.refused[IMPOSSIBLE] += 1
            return False
        before = self._heard.get(beat.agent)
        if before is not None and not self._is_later(beat, before, now):
            self.refused[STALE] += 1
            return False
        self._heard[beat.agent] = Member(beat, now)
        return True

    def _is_later(self, beat: MemberBeat, before: Member, now: float) -> bool:
        """After a clock was set back a new life has a lower number: it counts once the old one is dead."""
        if beat.life == before.beat.life:
            return beat.sequence > before.beat.sequence
        return beat.life > before.beat.life or now - before.heard_at > LIVE_S

    def get(self, agent: str) -> Member | None:
        """What was heard last of an agent."""
        return self._heard.get(agent)

    def is_live(self, agent: str, now: float) -> bool:
        """Whether an agent was heard of lately; this one is always."""
        member = self._heard.get(agent)
        return agent == self.own or (member is not None and now - member.heard_at <= LIVE_S)

    def live(self, now: float) -> list[str]:
        """All that live, this one included, in the order of their names."""
        return [agent for agent in sorted({*self._heard, self.own}) if self.is_live(agent, now)]

    def rank(self, last_leader: str, now: float) -> int:
        """How many live ones are stronger than this one; who led last does not count, its lease is over."""
        mine = (-self.score, self.own)
        return sum(
            (-self._heard[agent].beat.score, agent) < mine
            for agent in self.live(now)
            if agent not in (self.own, last_leader)
        )

    def named(self, name: str) -> str:
        """The agent of that name or on that host; empty if there is none."""
        if name in self.agents:
            return name
        return next((agent for agent, host in self.agents.items() if host and host == name), "")

    def successor(self, now: float) -> str:
        """The strongest other that lives; empty if there is none."""
        others = [agent for agent in self.live(now) if agent != self.own]
        return min(others, key=lambda agent: (-self._heard[agent].beat.score, agent), default="")
