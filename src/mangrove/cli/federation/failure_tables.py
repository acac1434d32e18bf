"""What `mangrove load` and `mangrove status` show of detectors of failure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mangrove.cli.tables.table import Styled, Table, details_column, name_column, number_column, word_column

if TYPE_CHECKING:
    from mangrove.model.agents.status import AgentStatus

STYLES = {"suspected": "yellow", "returning": "yellow", "failed": "red"}
BROKER, HOST, LINK, BOTTLENECK, ELASTIC = "broker", "host", "link", "bottleneck", "elastic"


def failures_table(agents: Mapping[str, AgentStatus]) -> Table:
    """What the three detectors have found, and what was done about it; nothing when all is well."""
    table = Table(
        "Detectors",
        name_column("of"),
        word_column("detector"),
        word_column("state"),
        number_column("for, s"),
        details_column("evidence"),
    )
    for domain, agent in agents.items():
        found = agent.failures
        for each in found.brokers:
            reports = f"reported by {len(each.reporters)} clients" if each.reporters else ""
            dropped = "the directory does without it" if each.broker in found.dropped else ""
            table.add(
                each.broker,
                BROKER,
                Styled(each.health, STYLES.get(each.health, "")),
                f"{each.since_s:.1f}",
                "; ".join(filter(None, (each.evidence, reports, dropped))),
                matters=each.health == "failed",
            )
        for broker, power in found.power.items():
            table.add(broker, ELASTIC, Styled(power, ""), "", "switched by load")
        for host in found.hosts:
            table.add(host, HOST, Styled("failed", "red"), "", "all its brokers are dead", matters=True)
        for broker in found.bottlenecks:
            table.add(broker, BOTTLENECK, Styled("overloaded", "red"), "", "see its load", matters=True)
        if found.refuted_reports:
            what = f"{found.refuted_reports:,} reports of brokers that are alive"
            table.add(domain, LINK, Styled("clients in trouble", "yellow"), "", what)
    return table


def health_of(agent: AgentStatus | None, broker: str) -> str:
    """What the agent takes a broker for, if it is not alive without doubt."""
    found = () if agent is None else agent.failures.brokers
    return next((each.health for each in found if each.broker == broker), "")
