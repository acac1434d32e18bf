"""Plans are asked for while somebody looks at them: they change rarely, and leaders tell them at length."""

from __future__ import annotations

import asyncio
import contextlib

import msgspec

from mangrove.agent.management import ManagementConnection
from mangrove.errors import MangroveError
from mangrove.model.agents.operations import PlanShown
from mangrove.model.endpoints import Runtime
from mangrove.model.plans.account import PlansTold
from mangrove.model.unreadable import UNREADABLE
from mangrove.monitor.web.channels import Channels
from mangrove.monitor.web.rendering import Renderer

EVERY_S = 2.0
LOOK_S = 0.25
TIMEOUT_S = 2.0
SIDE_BY_SIDE = 8


async def ask_plans(channels: Channels, renderer: Renderer) -> None:
    """Keep what the renderer knows of plans fresh, until cancelled."""
    while True:
        runtime = renderer.snapshot.runtime
        if runtime is not None and runtime.agents and channels.looked_at("plans"):
            await _while_looked_at(runtime, channels, renderer)
        await asyncio.sleep(LOOK_S)


async def _while_looked_at(runtime: Runtime, channels: Channels, renderer: Renderer) -> None:
    """Ask again and again, over connections that are kept for as long as somebody looks."""
    gate = asyncio.Semaphore(SIDE_BY_SIDE)

    async def asked(management: ManagementConnection) -> PlansTold | None:
        async with gate:
            return await plans_of(management)

    async with contextlib.AsyncExitStack() as stack:
        kept = {
            name: await stack.enter_async_context(ManagementConnection(endpoints))
            for name, endpoints in runtime.domains.items()
        }
        while renderer.snapshot.runtime is runtime and channels.looked_at("plans"):
            told = await asyncio.gather(*map(asked, kept.values()))
            renderer.plans = dict(zip(kept, told, strict=True))
            channels.show_again("plans")
            await asyncio.sleep(EVERY_S)


async def plans_of(management: ManagementConnection) -> PlansTold | None:
    """What the leader of a domain tells of plans; None if nobody does."""
    try:
        answer = await management.operate(PlanShown(), timeout_s=TIMEOUT_S)
    except MangroveError:  # its key cannot be used, as the map says of it
        return None
    if answer is None or answer.problem:
        return None
    try:
        return msgspec.json.decode(answer.result, type=PlansTold)
    except UNREADABLE:
        return None
