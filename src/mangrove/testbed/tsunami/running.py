"""A running federation with its clients, as the phases and the account see it."""

from __future__ import annotations

import asyncio
from collections import Counter

from mangrove.agent.inspection import gateway_status
from mangrove.agent.management import ManagementConnection
from mangrove.model.agents.status import AgentStatus
from mangrove.model.status import Drop
from mangrove.testbed.damage.account import progress
from mangrove.testbed.damage.watch import Watch
from mangrove.testbed.local_federation import LocalFederation
from mangrove.testbed.tsunami.report import Look, Moment, Tell
from mangrove.testbed.worker_process import Worker

COUNT_S = 0.5


class Running:
    """What there is to look at and to act upon."""

    def __init__(
        self,
        launched: LocalFederation,
        management: ManagementConnection,
        publisher: Worker,
        subscribers: list[Worker],
        look: Look,
        tell: Tell,
        seed: int,
    ) -> None:
        self.launched = launched
        self.management = management
        self.publisher = publisher
        self.subscribers = subscribers
        self.tell = tell
        self.seed = seed
        self.tightened_ns = 0
        """When the tighter contracts were in force everywhere."""
        self.watch = Watch()
        self._look = look
        self._began = asyncio.get_running_loop().time()
        self._counts: Counter[str] = Counter()
        self._counted_at = 0.0

    @property
    def elapsed_s(self) -> float:
        """Since messages began to flow."""
        return asyncio.get_running_loop().time() - self._began

    async def look(self, phase: str) -> AgentStatus | None:
        """See how things are, and show it."""
        now = asyncio.get_running_loop().time()
        if now - self._counted_at >= COUNT_S:
            self._counted_at = now
            workers = (self.publisher, *self.subscribers)
            self._counts = progress(await asyncio.gather(*(each.ask("progress") for each in workers)))
        status = await self.management.agent_status()
        if status is not None:
            self.watch.take(status, asyncio.get_running_loop().time())
        self._look(Moment(phase, self.elapsed_s, status, self._counts))
        return status

    async def drops(self) -> dict[str, tuple[Drop, ...]]:
        """What the gateways have dropped, by site."""
        found = {}
        for name, endpoints in self.launched.endpoints.items():
            status = await gateway_status(endpoints)
            found[name] = () if status is None else status.drops
        return found
