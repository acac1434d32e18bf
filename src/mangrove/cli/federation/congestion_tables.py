"""The tables of `mangrove load` on congestion: who is useful, who is limited and why, who cannot keep up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mangrove.cli.tables.table import (
    EXTRA,
    USEFUL,
    Table,
    bad,
    details_column,
    good,
    name_column,
    number_column,
    word_column,
)
from mangrove.model.shared_names import SDK_NAME

if TYPE_CHECKING:
    from mangrove.model.agents.status import AgentStatus
    from mangrove.model.agents.usefulness import LimitStatus, SlowSubscriber
    from mangrove.model.congestion.rate_limit import RateLimit

Agents = Mapping[str, "AgentStatus"]

MAX_LIMITS = 20
MAX_TOPICS = 20
MAX_SLOW = 20
CLEAR = "clear"


def congestion_table(agents: Agents) -> Table:
    """What congestion control is doing, and the brokers for which nobody has room."""
    table = Table(
        "Congestion",
        name_column("domain"),
        word_column("state"),
        number_column("since"),
        number_column("limits"),
        number_column("votes", USEFUL),
        details_column("why"),
    )
    for domain, agent in agents.items():
        congestion = agent.congestion
        if congestion.state == CLEAR and not (agent.congested or congestion.limited):
            continue
        short = [f"no other broker has room for the load of {', '.join(agent.congested)}"]
        why = [*(short if agent.congested else []), *([congestion.why] if congestion.why else [])]
        table.add(
            domain,
            good(CLEAR) if congestion.state == CLEAR else bad(congestion.state),
            f"{congestion.since_s:,.0f}s",
            f"{congestion.limited:,}",
            f"{congestion.votes:,}",
            "; ".join(why),
            matters=True,
        )
    return table


def capacities_table(agents: Agents) -> Table:
    """Brokers that somebody said to carry less than their file says."""
    table = Table(
        "Lowered capacities",
        name_column("domain"),
        name_column("broker"),
        number_column("bandwidth left"),
        number_column("matching left"),
    )
    for domain, agent in agents.items():
        for broker, (bandwidth, matching) in sorted(agent.congestion.capacities.items()):
            table.add(domain, broker, f"{bandwidth:.0%}", f"{matching:.0%}", matters=True)
    return table


def usefulness_table(agents: Agents) -> Table:
    """Topics as their subscribers judge them, the most important first."""
    table = Table(
        "Usefulness",
        name_column("topic"),
        number_column("utility"),
        number_column("importance"),
        number_column("subscribers"),
        number_column("publishers"),
        number_column("offered/s"),
        number_column("allowed/s"),
        word_column("note"),
        name_column("domain", EXTRA),
        max_rows=MAX_TOPICS,
    )
    for domain, agent in agents.items():
        for topic in sorted(agent.congestion.topics, key=lambda each: (-each.importance, each.topic)):
            table.add(
                topic.topic,
                f"{topic.utility:.2f}",
                f"{topic.importance:.3g}",
                f"{topic.subscribers:,}",
                f"{topic.publishers:,}",
                _rate(topic.offered_msg_s),
                "all" if topic.allowed_msg_s is None else bad(_rate(topic.allowed_msg_s)),
                good("protected") if topic.protected else "",
                domain,
                matters=topic.protected or topic.allowed_msg_s is not None,
            )
    return table


def limits_table(agents: Agents) -> Table:
    """Who may say less than it would, and for whose sake."""
    table = Table(
        "Limits in force",
        name_column("topic"),
        name_column("publisher"),
        number_column("utility"),
        number_column("offered/s"),
        number_column("limit/s"),
        number_column("since", USEFUL),
        details_column("why"),
        max_rows=MAX_LIMITS,
    )
    for agent in agents.values():
        for limit in agent.congestion.limits:
            table.add(
                limit.topic,
                person(limit.publisher),
                "–" if limit.utility is None else f"{limit.utility:.2f}",
                _rate(limit.offered_msg_s),
                limit_text(limit.limit),
                f"{limit.since_s:,.0f}s",
                why_limited(limit),
            )
        table.leave_out(max(0, agent.congestion.limited - len(agent.congestion.limits)))
    return table


def slow_table(agents: Agents) -> Table:
    """Subscribers that cannot keep up."""
    table = Table(
        "Slow subscribers",
        name_column("client"),
        name_column("broker"),
        name_column("subject"),
        number_column("waiting"),
        number_column("oldest"),
        number_column("lost"),
        word_column("kind", USEFUL),
        max_rows=MAX_SLOW,
    )
    for agent in agents.values():
        for slow in agent.congestion.slow:
            table.add(
                person(slow.name or slow.client),
                slow.broker,
                slow.subject or "–",
                _waiting(slow),
                f"{slow.oldest_s:.1f}s" if slow.oldest_s else "–",
                f"{slow.lost:,}",
                "plain" if slow.plain else "SDK",
                matters=bool(slow.lost),
            )
    return table


def limit_text(limit: RateLimit) -> str:
    """A limit in few characters: messages a second, or bytes where only those are limited."""
    if limit.msg_s is not None:
        return _rate(limit.msg_s)
    return "none" if limit.bytes_s is None else f"{limit.bytes_s / 1000:,.0f} kB"


def person(name: str) -> str:
    """A client's name without what all clients of the SDK are called."""
    return name.removeprefix(f"{SDK_NAME} ")


def why_limited(limit: LimitStatus) -> str:
    """Cause, reason and the brokers that have too little, in words."""
    parts = (
        f"{limit.limit.cause.value}{': ' + limit.limit.reason if limit.limit.reason else ''}",
        f"for {', '.join(limit.brokers)}" if limit.brokers else "",
        "stopped, but for a probe" if limit.probing else "",
    )
    return "; ".join(part for part in parts if part)


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _waiting(slow: SlowSubscriber) -> str:
    return f"{slow.pending / 1000:,.0f} kB" if slow.plain else f"{slow.pending:,}"
