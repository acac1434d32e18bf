"""Looks at one data broker every period, and does there what the brain asks for.

Each broker has tasks of its own, so that one that is away or slow delays no other; a look that takes longer
than a period leaves the next ones out instead of piling up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from mangrove.broker.system import BrokerAwayError, BrokerSystem
from mangrove.control.stimuli import BrokerSampled, BrokerUnreachable, PlainClientsSeen, Stimulus

log = logging.getLogger(__name__)

MAX_JOBS = 1_000

LOOK = -1
"""The job of looking at connections, among numbers of connections to end."""


class BrokerWatch:
    """One broker."""

    def __init__(
        self,
        broker: str,
        system: BrokerSystem,
        tell: Callable[[Stimulus], None],
        leads: Callable[[], bool],
        *,
        period_s: float,
        pending: bool,
        delay: bool,
    ) -> None:
        """`pending` and `delay`: whether these are asked for with every sample."""
        self.broker = broker
        self.curious = False
        """Whether pending bytes are asked for although nothing is triggered by them: a broker under load."""
        self._system = system
        self._tell = tell
        self._leads = leads
        self._period_s = period_s
        self._pending = pending
        self._delay = delay
        self._jobs: asyncio.Queue[int] = asyncio.Queue(MAX_JOBS)
        self._looking = False

    async def run(self) -> None:
        """Watch, until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._sample(), name=f"sample {self.broker}")
                tasks.create_task(self._work(), name=f"work at {self.broker}")
        finally:
            await self._system.close()

    def look_at_clients(self) -> None:
        """Ask for the connections, once however often it is wanted until then."""
        if not self._looking and self._put(LOOK):
            self._looking = True

    def kick(self, cid: int) -> bool:
        """End a connection; says whether it will be tried."""
        return self._put(cid)

    def _put(self, job: int) -> bool:
        try:
            self._jobs.put_nowait(job)
        except asyncio.QueueFull:
            return False
        return True

    async def _sample(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            try:
                found = await self._system.sample(pending=self._pending or self.curious, delay=self._delay)
            except BrokerAwayError as error:
                self._tell(BrokerUnreachable(self.broker, error.message))
            else:
                self._tell(BrokerSampled(found))
            # Two samples close together tell no rate: after a late one the next is later, too.
            due = max(due, loop.time() - self._period_s / 4) + self._period_s
            await asyncio.sleep(due - loop.time())

    async def _work(self) -> None:
        while True:
            job = await self._jobs.get()
            if not self._leads():  # decided in another time
                self._looking = False
                continue
            try:
                if job == LOOK:
                    self._looking = False
                    seen = await self._system.connections()
                    self._tell(PlainClientsSeen(self.broker, seen.clients, seen.left_out))
                else:
                    await self._system.kick(job)
            except BrokerAwayError as error:
                log.warning("%s", error.message)
