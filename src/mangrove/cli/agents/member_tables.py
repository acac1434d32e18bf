"""The agents of domains, as `mangrove leader`, `mangrove status` and `mangrove load` show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mangrove.cli.tables.table import (
    EXTRA,
    USEFUL,
    Styled,
    Table,
    bad,
    good,
    name_column,
    number_column,
    word_column,
)

if TYPE_CHECKING:
    from mangrove.model.agents.status import AgentStatus, MemberStatus


def members_table(agents: Mapping[str, AgentStatus]) -> Table:
    """Every agent, the strongest of a domain first: in this order they would lead."""
    table = Table(
        "Agents by strength",
        name_column("agent"),
        name_column("host", USEFUL),
        word_column("state"),
        number_column("score"),
        number_column("policy"),
        number_column("heard", EXTRA),
        word_column("asked for policies", EXTRA),
    )
    for status in agents.values():
        for member in sorted(status.members, key=lambda each: (-each.score, each.agent)):
            table.add(
                member.agent,
                member.host or "–",
                _state(member, status.leader),
                f"{member.score:,.0f}",
                f"{member.policy}" + (f" (+{member.held})" if member.held else ""),
                "–" if member.heard_s is None else f"{member.heard_s:.1f}s ago",
                "yes" if member.member else "no",
                matters=not member.live,
            )
    return table


def several(agents: Mapping[str, AgentStatus]) -> dict[str, AgentStatus]:
    """Domains that have more than one agent."""
    return {domain: status for domain, status in agents.items() if len(status.members) > 1}


def pause_note(status: AgentStatus) -> str:
    """That decisions are paused, if they are."""
    if status.paused is None:
        return ""
    return f"paused by {status.paused.by or 'an operator'}"


def _state(member: MemberStatus, leader: str) -> Styled:
    if not member.live:
        return bad("silent")
    return good("leads") if member.agent == leader else Styled("follows", "")
