"""Who leads a domain, asked until somebody does."""

from __future__ import annotations

from tests.kit.waiting import eventually

from mangrove.agent.management import ManagementConnection
from mangrove.model.agents.status import AgentStatus


async def leader_after(management: ManagementConnection, term: int) -> AgentStatus:
    """Wait for a leader in a later term than this."""
    found: list[AgentStatus] = []

    async def leading() -> bool:
        status = await management.agent_status()
        if status is not None and status.leads and status.term > term:
            found.append(status)
        return bool(found)

    await eventually(leading, f"an agent should lead in a term after {term}")
    return found[-1]
