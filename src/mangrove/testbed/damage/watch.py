"""What the agent says while edges are damaged, boiled down to how soon they were relieved and limits gone."""

from __future__ import annotations

from mangrove.model.agents.load import LoadState
from mangrove.model.agents.status import AgentStatus
from mangrove.model.agents.usefulness import LimitStatus

BELOW_S = 3.0
"""Who is below the threshold for so long is relieved."""


class Watch:
    """What the agent says, several times a second, boiled down to the report's figures."""

    def __init__(self) -> None:
        self.cut_at: float | None = None
        self.restored_at: float | None = None
        self.below_at: float | None = None
        self.limited_at: float | None = None
        self.lifted_at: float | None = None
        self.peak = 0.0
        self.most_limits = 0
        self.congested = False
        self.overloaded = False
        self.looked_at = 0.0
        self.overloaded_again_s = 0.0
        self.moves: dict[str, str] = {}
        self.earlier: frozenset[str] = frozenset()
        self.limits: tuple[LimitStatus, ...] = ()
        self.states: list[str] = []

    def take(self, status: AgentStatus, now: float) -> None:
        """The agent has told how it is; `cut_at` and `restored_at` are set by who cuts and restores."""
        congestion = status.congestion
        if not self.states or self.states[-1] != congestion.state:
            self.states.append(congestion.state)
        if self.cut_at is None:
            self.earlier = frozenset(session.id for session in status.sessions)
            return
        self.most_limits = max(self.most_limits, congestion.limited)
        if self.restored_at is not None:
            if congestion.limited:
                self.lifted_at = None
            elif self.lifted_at is None:
                self.lifted_at = now
            return
        self.limits = congestion.limits
        self.congested = self.congested or bool(status.congested)
        if congestion.limited and self.limited_at is None:
            self.limited_at = now
        used = [value for load in status.brokers for value in load.utilisation.values()]
        self.peak = max([self.peak, *used])
        self._judge(any(load.measured is LoadState.OVERLOAD for load in status.brokers), now)
        for session in status.sessions:
            if session.id not in self.earlier:
                self.moves |= {move.topic: move.to for move in session.moves if move.confirmed}

    def _judge(self, overloaded: bool, now: float) -> None:
        """Whether brokers are below the threshold, and for how long; a later breach is counted apart."""
        if not overloaded:
            if self.overloaded and self.below_at is None:
                self.below_at = now
        elif self.below_at is not None and now - self.below_at >= BELOW_S:
            self.overloaded_again_s += now - self.looked_at
        else:
            self.overloaded, self.below_at = True, None
        self.looked_at = now
