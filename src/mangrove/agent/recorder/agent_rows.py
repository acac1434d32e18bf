"""What a domain's leading agent tells of itself, as rows of the lake's tables; without one there are none."""

from __future__ import annotations

from datetime import UTC, datetime

from mangrove.agent.recorder.rows import Rows, Second
from mangrove.model.agents.load import Metric
from mangrove.model.agents.status import AgentStatus, SessionStatus
from mangrove.model.telemetry import OPINIONS_S


def _leader(second: Second) -> AgentStatus | None:
    agent = second.status.agent
    return agent if agent is not None and agent.leads else None


def load_rows(second: Second) -> Rows:
    """`load_samples`."""
    agent = _leader(second)
    if agent is None:
        return []
    return [
        second.row(
            broker=load.broker,
            role=load.role,
            reachable=load.reachable,
            state=load.state.value,
            measured=load.measured.value,
            **{metric.value: load.utilisation.get(metric) for metric in Metric},
            headroom=load.headroom,
            pending_bytes=load.pending_bytes,
            overloaded=",".join([*load.overloaded, *load.triggers]),
            session=load.session,
        )
        for load in agent.brokers
    ]


class AgentMemory:
    """What was recorded of an agent already: its account lists ended sessions, and opinions, for a while."""

    def __init__(self) -> None:
        self._sessions: frozenset[str] | None = None
        self._opinions_s = 0

    def session_rows(self, second: Second) -> Rows:
        """`offload_sessions`: those that ended since the last look; at the first, nobody knows when."""
        agent = _leader(second)
        if agent is None:
            return []
        ended = {each.id: each for each in agent.sessions if each.outcome}
        before, self._sessions = self._sessions, frozenset(ended)
        new = [] if before is None else [each for name, each in ended.items() if name not in before]
        return [_session_row(second, session) for session in new]

    def opinion_rows(self, second: Second) -> Rows:
        """`topic_opinions`, once in so many seconds."""
        agent = _leader(second)
        start_s = int(second.ts.timestamp()) // OPINIONS_S * OPINIONS_S
        if agent is None or start_s == self._opinions_s:
            return []
        self._opinions_s = start_s
        told = agent.congestion
        topics = {each.topic: each for each in (*told.topics, *told.least_useful)}
        second.omissions.level("topics without rows in topic_opinions", max(0, told.known - len(topics)))
        return [
            {
                "ts": datetime.fromtimestamp(start_s, UTC),
                "domain": second.domain,
                "topic": each.topic,
                "utility": each.utility,
                "importance": each.importance,
                "subscribers": each.subscribers,
                "publishers": each.publishers,
                "protected": each.protected,
                "offered_msg_s": each.offered_msg_s,
                "allowed_msg_s": each.allowed_msg_s,
            }
            for each in topics.values()
        ]


def _session_row(second: Second, session: SessionStatus) -> dict[str, object]:
    return second.row(
        session=session.id,
        broker=session.broker,
        scope=session.scope,
        metrics=",".join(session.metrics),
        seconds=session.since_s,
        outcome=session.outcome,
        topics=len(session.moves),
        subscriptions=sum(move.subscriptions for move in session.moves),
        moved=sum(move.confirmed for move in session.moves),
        held_ms=max((move.held_ms for move in session.moves), default=0.0),
    )
