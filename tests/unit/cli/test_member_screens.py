"""What `mangrove leader`, `mangrove load` and `mangrove status` say of several agents; on 80 columns."""

from __future__ import annotations

import msgspec

from mangrove.cli.agents.member_tables import members_table, pause_note, several
from mangrove.cli.federation.load_tables import load_tables
from mangrove.model.agents.status import AgentStatus, MemberStatus, PauseStatus

MEMBERS = (
    MemberStatus(agent="oslo-agent", host="h1", live=True, score=1000.0, heard_s=0.2, policy=3),
    MemberStatus(agent="oslo-h2-agent", host="h2", live=True, score=4000.0, policy=3, held=4),
    MemberStatus(agent="oslo-h3-agent", host="h3", live=False, score=2000.0, heard_s=60.0, policy=2),
)
STATUS = AgentStatus(
    domain="oslo",
    agent="oslo-h2-agent",
    term=7,
    leads=True,
    uptime_s=5.0,
    brokers=(),
    leader="oslo-h2-agent",
    members=MEMBERS,
    policy=3,
)


def text(agents: dict[str, AgentStatus]) -> str:
    tables = list(load_tables(agents))
    lines = ["".join(part for part, *_ in line) for table in tables for line in table.lines(80)]
    assert all(len(line) <= 80 for line in lines)
    return "\n".join(lines)


def test_agents_are_shown_in_the_order_in_which_they_would_lead() -> None:
    shown = text({"oslo": STATUS})
    order = [shown.index(name) for name in ("oslo-h2-agent  h2", "oslo-h3-agent  h3", "oslo-agent     h1")]
    assert order == sorted(order)
    assert "silent" in shown
    assert "3 (+4)" in shown, "a policy in force, and one that is held"


def test_a_domain_with_one_agent_has_no_such_table() -> None:
    alone = msgspec.structs.replace(STATUS, members=MEMBERS[:1])
    assert several({"oslo": alone}) == {}
    assert "by strength" not in text({"oslo": alone})
    assert members_table({"oslo": alone}), "unless one asks for it"


def test_a_pause_is_shown_with_who_wanted_it() -> None:
    paused = msgspec.structs.replace(STATUS, paused=PauseStatus(by="ann", since=0.0), store_problem="away")
    assert "paused by ann; store: away" in text({"oslo": paused})
    assert pause_note(STATUS) == ""
