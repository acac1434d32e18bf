"""Brokers: how loaded they are, what their agents do about it, and what is in force."""

from __future__ import annotations

import msgspec

from mangrove.model.agents.load import BrokerLoad, LoadState, Metric
from mangrove.model.agents.status import AgentStatus
from mangrove.model.hosting.broker_status import BrokerStatus
from mangrove.model.status import DomainStatus
from mangrove.monitor.view.sight import Sight
from mangrove.monitor.view.wording import Grade, name_key, sentence

MAX_ROWS = 1_000
MAX_SESSIONS = 50
MAX_LIMITS = 100
_GRADES = {
    LoadState.LOW: Grade.GOOD,
    LoadState.BUSY: Grade.GOOD,
    LoadState.HIGH: Grade.DOUBT,
    LoadState.OVERLOAD: Grade.BAD,
}


class BrokerRow(msgspec.Struct, frozen=True, kw_only=True):
    """One broker. `input`, `output` and `matching` are Ui, Uo and Um of ePEER §4.4.1: shares of capacity."""

    broker: str
    domain: str
    role: str
    grade: Grade
    state: str
    input: float | None = None
    output: float | None = None
    matching: float | None = None
    headroom: float | None = None
    messages_in_s: float = 0.0
    messages_out_s: float = 0.0
    connections: int = 0
    subscriptions: int = 0
    pending_bytes: int = 0
    cpu_percent: float = 0.0
    memory_bytes: int = 0
    slow_consumers: int = 0
    session: str = ""
    note: str = ""


class DomainRow(msgspec.Struct, frozen=True, kw_only=True):
    """What the agent of a domain says."""

    domain: str
    leader: str
    term: int
    paused: str
    clients: int
    records: int
    mirrored: int
    moves: int
    policy: int
    congestion: str
    loss_of_a_host: str = ""
    agents: tuple[str, ...] = ()
    """All that live, for a hand-over."""


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """An offload session."""

    domain: str
    id: str
    broker: str
    state: str
    scope: str
    since_s: float
    moves: str
    outcome: str


class LimitRow(msgspec.Struct, frozen=True, kw_only=True):
    """How useful a topic is held to be, and how much of it may be said."""

    domain: str
    topic: str
    utility: float
    importance: float
    subscribers: int
    protected: bool
    offered_msg_s: float
    allowed_msg_s: float | None


class BrokersView(msgspec.Struct, frozen=True, kw_only=True):
    """The page."""

    rows: tuple[BrokerRow, ...]
    domains: tuple[DomainRow, ...]
    sessions: tuple[SessionRow, ...]
    limits: tuple[LimitRow, ...]
    left_out: int = 0


def brokers(sight: Sight) -> BrokersView:
    """All data and management brokers, the most troubled first, and what agents do."""
    rows = [_row(domain, broker) for domain in sight.status.domains for broker in domain.brokers]
    rows.sort(key=lambda row: (-list(Grade).index(row.grade), row.headroom or 0.0, row.broker))
    told = [(domain, domain.agent) for domain in sight.status.domains if domain.agent is not None]
    return BrokersView(
        rows=tuple(rows[:MAX_ROWS]),
        domains=tuple(_domain(domain, agent) for domain, agent in told),
        sessions=tuple(each for _, agent in told for each in _sessions(agent))[:MAX_SESSIONS],
        limits=tuple(each for _, agent in told for each in _limits(agent))[:MAX_LIMITS],
        left_out=max(0, len(rows) - MAX_ROWS),
    )


def _row(domain: DomainStatus, broker: BrokerStatus) -> BrokerRow:
    loads = () if domain.agent is None else domain.agent.brokers
    load = next((each for each in loads if each.broker == broker.name), None)
    grade, state, note = _judged(broker, load)
    used = {} if load is None else load.utilisation
    return BrokerRow(
        broker=broker.name,
        domain=domain.domain,
        role=broker.role,
        grade=grade,
        state=state,
        input=_share(used.get(Metric.INPUT)),
        output=_share(used.get(Metric.OUTPUT)),
        matching=_share(used.get(Metric.MATCHING)),
        headroom=None if load is None else _share(load.headroom),
        messages_in_s=0.0 if load is None else round(load.messages_in_s, 1),
        messages_out_s=0.0 if load is None else round(load.messages_out_s, 1),
        connections=broker.connections,
        subscriptions=broker.subscriptions,
        pending_bytes=0 if load is None else load.pending_bytes,
        cpu_percent=round(broker.cpu_percent, 1),
        memory_bytes=broker.memory_bytes,
        slow_consumers=broker.slow_consumers,
        session="" if load is None else load.session,
        note=sentence(note, 160),
    )


def _judged(broker: BrokerStatus, load: BrokerLoad | None) -> tuple[Grade, str, str]:
    if not broker.reachable:
        return Grade.BAD, "away", "does not answer"
    if load is None:
        return Grade.GOOD, "up", f"attached to {broker.attached_to}" if broker.attached_to else ""
    causes = [f"{each.value} overloaded" for each in load.overloaded]
    causes += [f"{each.value} beyond its threshold" for each in load.triggers]
    return _GRADES[load.state], load.state.value, load.problem or ", ".join(causes)


def _share(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _domain(domain: DomainStatus, agent: AgentStatus) -> DomainRow:
    paused = "" if agent.paused is None else f"by {agent.paused.by or 'somebody'}"
    state = agent.congestion.state
    return DomainRow(
        domain=domain.domain,
        leader=agent.leader,
        term=agent.term,
        paused=sentence(paused, 80),
        clients=agent.clients,
        records=agent.records,
        mirrored=agent.mirrored,
        moves=agent.moves,
        policy=agent.policy,
        congestion=sentence(f"{state}: {agent.congestion.why}" if agent.congestion.why else state, 160),
        loss_of_a_host=sentence(domain.loss_of_a_host, 160),
        agents=tuple(each.agent for each in agent.members if each.live),
    )


def _sessions(agent: AgentStatus) -> list[SessionRow]:
    return [
        SessionRow(
            domain=agent.domain,
            id=each.id,
            broker=each.broker,
            state=each.state,
            scope=each.scope,
            since_s=round(each.since_s, 1),
            moves=sentence(", ".join(f"{name_key(move.topic)} → {move.to}" for move in each.moves[:5]), 200),
            outcome=sentence(each.outcome, 160),
        )
        for each in agent.sessions[:MAX_SESSIONS]
    ]


def _limits(agent: AgentStatus) -> list[LimitRow]:
    return [
        LimitRow(
            domain=agent.domain,
            topic=name_key(each.topic),
            utility=round(each.utility, 3),
            importance=round(each.importance, 3),
            subscribers=each.subscribers,
            protected=each.protected,
            offered_msg_s=round(each.offered_msg_s, 1),
            allowed_msg_s=None if each.allowed_msg_s is None else round(each.allowed_msg_s, 1),
        )
        for each in agent.congestion.topics[:MAX_LIMITS]
    ]
