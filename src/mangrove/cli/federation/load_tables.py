"""The tables of `mangrove load`, one function for each; an empty table is not shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from mangrove.cli.agents.member_tables import members_table, pause_note, several
from mangrove.cli.federation.congestion_tables import (
    capacities_table,
    congestion_table,
    limits_table,
    slow_table,
    usefulness_table,
)
from mangrove.cli.federation.failure_tables import failures_table
from mangrove.cli.tables.table import (
    EXTRA,
    USEFUL,
    Styled,
    Table,
    bad,
    details_column,
    good,
    name_column,
    number_column,
    word_column,
)
from mangrove.model.agents.load import LoadState, Metric

if TYPE_CHECKING:
    from mangrove.model.agents.load import BrokerLoad
    from mangrove.model.agents.status import AgentStatus

Agents = Mapping[str, "AgentStatus"]

_STYLES = {
    LoadState.LOW: "green",
    LoadState.HIGH: "yellow",
    LoadState.OVERLOAD: "red",
    LoadState.BUSY: "cyan",
}


def load_tables(agents: Agents) -> Iterator[Table]:
    """All tables that have rows."""
    for make in (
        agents_table,
        _members,
        brokers_table,
        failures_table,
        sessions_table,
        neighbours_table,
        congestion_table,
        capacities_table,
        limits_table,
        usefulness_table,
        slow_table,
        refused_table,
    ):
        table = make(agents)
        if table:
            yield table


def agents_table(agents: Agents) -> Table:
    """Who leads, and how much there is to look after."""
    table = Table(
        "Agents",
        name_column("agent"),
        word_column("state"),
        number_column("term", USEFUL),
        number_column("clients"),
        number_column("subscriptions"),
        number_column("topics"),
        number_column("advertised", EXTRA),
        number_column("moves"),
        word_column("method", USEFUL),
        word_column("distribution", EXTRA),
        details_column("note"),
    )
    for agent in agents.values():
        table.add(
            agent.agent,
            good("leads") if agent.leads else bad("follows"),
            f"{agent.term}",
            f"{agent.clients:,}",
            f"{agent.subscriptions:,}",
            f"{agent.records:,}",
            f"{agent.advertised:,}",
            f"{agent.moves:,}",
            agent.method,
            agent.distribution,
            agent_note(agent),
            matters=not agent.leads or bool(agent.store_problem) or agent.paused is not None,
        )
    return table


def agent_note(agent: AgentStatus) -> str:
    """What is not as usual."""
    store = f"store: {agent.store_problem}" if agent.store_problem else ""
    return "; ".join(note for note in (pause_note(agent), store) if note)


def _members(agents: Agents) -> Table:
    return members_table(several(agents))


def brokers_table(agents: Agents) -> Table:
    """Every data broker against its capacity."""
    table = Table(
        "Load",
        name_column("broker"),
        word_column("state"),
        number_column("in"),
        number_column("out"),
        number_column("match"),
        number_column("headroom"),
        number_column("msg/s in", EXTRA),
        number_column("msg/s out", EXTRA),
        number_column("pending", USEFUL),
        number_column("cpu"),
        number_column("memory", EXTRA),
        number_column("clients"),
        details_column("note"),
    )
    for agent in agents.values():
        for load in agent.brokers:
            if not load.reachable:
                table.add(load.broker, bad("unreachable"), *[""] * 10, load.problem, matters=True)
                continue
            table.add(
                load.broker,
                Styled(load.state.value, _STYLES[load.state]),
                *(_share(load.utilisation.get(metric)) for metric in Metric),
                _share(load.headroom),
                f"{load.messages_in_s:,.0f}",
                f"{load.messages_out_s:,.0f}",
                _size(load.pending_bytes),
                f"{load.cpu_percent:.0f}%",
                _size(load.memory_bytes),
                f"{load.connections:,}",
                _note(load),
                matters=load.measured is not LoadState.LOW,
            )
    return table


def sessions_table(agents: Agents) -> Table:
    """What moves, and what moved last."""
    table = Table(
        "Offload sessions",
        name_column("session"),
        name_column("broker"),
        word_column("state"),
        word_column("scope", USEFUL),
        number_column("since"),
        number_column("moved"),
        details_column("moves"),
    )
    for agent in agents.values():
        for session in agent.sessions:
            wanted = sum(move.subscriptions for move in session.moves)
            done = sum(move.confirmed for move in session.moves)
            moves = "; ".join(
                f"{move.topic} → {move.to}{f' in {move.domain}' if move.domain else ''}"
                f" {move.confirmed}/{move.subscriptions}"
                for move in session.moves
            )
            table.add(
                session.id,
                session.broker,
                session.state,
                session.scope,
                f"{session.since_s:,.0f}s",
                f"{done:,}/{wanted:,}",
                "; ".join(part for part in (", ".join(session.metrics), moves, session.outcome) if part),
                matters=not session.outcome,
            )
    return table


def neighbours_table(agents: Agents) -> Table:
    """What linked domains tell of themselves."""
    table = Table(
        "Neighbours",
        name_column("domain"),
        name_column("neighbour"),
        word_column("state"),
        word_column("head"),
        word_column("edges"),
        number_column("headroom"),
        word_column("takes load"),
        number_column("told", USEFUL),
    )
    for domain, agent in agents.items():
        for peer in agent.peers:
            load = peer.load
            table.add(
                domain,
                peer.domain,
                good("online") if peer.online else bad("offline"),
                "–" if load is None else Styled(load.head.value, _STYLES[load.head]),
                "–" if load is None else Styled(load.edges.value, _STYLES[load.edges]),
                "–" if load is None else _share(load.headroom),
                "yes" if peer.accepts else "no",
                "never" if peer.load_age_s is None else f"{peer.load_age_s:,.0f}s ago",
                matters=not peer.online,
            )
    return table


def refused_table(agents: Agents) -> Table:
    """What agents did not believe, or could not do."""
    table = Table(
        "Refused and dropped", name_column("domain"), number_column("count"), details_column("what")
    )
    for domain, agent in agents.items():
        counts = Counter(agent.refused) + Counter(agent.congestion.refused)
        for reason, count in counts.most_common():
            table.add(domain, f"{count:,}", reason)
    return table


def _note(load: BrokerLoad) -> str:
    overloaded = [metric.value for metric in load.overloaded] + [trigger.value for trigger in load.triggers]
    parts = (
        f"overloaded: {', '.join(overloaded)}" if overloaded else "",
        f"in {load.session}, measured {load.measured.value}" if load.session else "",
        load.problem,
    )
    return "; ".join(part for part in parts if part)


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def _size(size_bytes: int) -> str:
    if size_bytes < 1_000_000:
        return f"{size_bytes / 1e3:.0f} kB" if size_bytes else "0"
    return f"{size_bytes / 1e6:.0f} MB"
