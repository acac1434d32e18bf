"""Brokers that can carry less from now on: their lines, and what their agent reckons with."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from mangrove.agent.management import ManagementConnection
from mangrove.errors import MangroveError
from mangrove.model.agents.usefulness import CapacityTold
from mangrove.testbed.local_federation import LocalFederation

ATTEMPTS = 15


async def lower(
    launched: LocalFederation,
    management: ManagementConnection,
    names: Sequence[str],
    bandwidth_mbps: float,
    part: float,
) -> None:
    """Leave brokers a part of their bandwidth (1: all), and tell the agent as `mangrove broker` does."""
    for name in names:
        await launched.narrow(name, part * bandwidth_mbps)
    await asyncio.gather(*(_told(management, CapacityTold(broker=name, bandwidth=part)) for name in names))


async def _told(management: ManagementConnection, told: CapacityTold) -> None:
    """Say it until the agent answers: it may be busy, or begin anew under other contracts."""
    for _ in range(ATTEMPTS):
        answer = await management.tell_capacity(told)
        if answer is not None:
            break
    if answer is None or answer.problem:
        problem = "it does not answer" if answer is None else answer.problem
        raise MangroveError(f"the agent was not told of the capacity of {told.broker}: {problem}")
