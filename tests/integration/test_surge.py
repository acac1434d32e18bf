"""Bursts on real brokers: the agent moves subscribers, and no message is lost, repeated or reordered."""

from __future__ import annotations

from pathlib import Path

import pytest

from mangrove.model.agents.load import LoadState
from mangrove.model.agents.status import AgentStatus
from mangrove.testbed.surge.scenario import Surge
from mangrove.testbed.surge.workload import NEIGHBOUR, draw_plan

CASES = {
    "in the domain, agent killed": {"edges": 3, "neighbour": False},
    "to a neighbour": {"edges": 1, "neighbour": True},
}


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=pytest.mark.soak) if CASES[case]["neighbour"] else case for case in CASES],
)
async def test_a_burst_moves_subscribers_and_no_message_notices(case: str, tmp_path: Path) -> None:
    neighbour = bool(CASES[case]["neighbour"])
    plan = draw_plan(
        seed=7, topics=40, subscribers=80, rate_msg_s=2000.0, edges=CASES[case]["edges"], neighbour=neighbour
    )
    last: list[AgentStatus] = []

    def look(status: AgentStatus | None, _phase: str) -> None:
        if status is not None:
            last[:] = [status]

    surge = Surge(plan, tmp_path, bursts=1, kill_agent=not neighbour, look=look)
    report = await surge.run(burst_s=12.0)
    (burst,) = report.bursts
    account = report.account
    assert (account.lost, account.duplicated, account.reordered) == (0, 0, 0)
    assert account.delivered == account.expected > 30_000
    assert burst.detected_s is not None, "the burst was to overload its edge"
    assert burst.moves
    assert account.moved, "subscriptions moved"
    assert all(NEIGHBOUR in move for move in burst.moves) == neighbour
    assert len(report.agent_killed_in) == (0 if neighbour else 1)
    (status,) = last
    assert not [session for session in status.sessions if session.state != "ended"]
    assert all(load.state is not LoadState.BUSY for load in status.brokers), "BUSY is always cleared"
    assert all(load.measured is not LoadState.OVERLOAD for load in status.brokers)
