"""The recorder: looks at domains once a second and hands rows of the telemetry lake to a writer.

A process of its own runs it (see `daemon`). It owns the disk's side: what the domains' recorders hand over is
written every few seconds, and once more at the end.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence

from mangrove.agent.recorder.domain_recorder import DomainRecorder
from mangrove.agent.recorder.sink import Sink
from mangrove.model.endpoints import DomainEndpoints
from mangrove.model.federation import Federation

log = logging.getLogger(__name__)

FLUSH_S = 3.0
MERGE_AT_END_S = 1.0


class Recorder:
    """Records the domains that run here."""

    def __init__(
        self, federation: Federation, domains: Sequence[DomainEndpoints], sink: Sink, *, cores: int = 1
    ) -> None:
        self._sink = sink
        self._domains = [DomainRecorder(federation, endpoints, sink, cores) for endpoints in domains]
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Begin to record."""
        for domain in self._domains:
            domain.event(domain.name, "recorder_started", "")
        self._tasks = [asyncio.create_task(domain.run()) for domain in self._domains]
        self._tasks.append(asyncio.create_task(self._flush_regularly()))

    async def run(self) -> None:
        """Go on until cancelled. What nobody foresaw is raised, so that the process ends and is restarted."""
        await asyncio.gather(*self._tasks)

    async def stop(self) -> None:
        """End, with everything written."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for domain in self._domains:
            await domain.close()
        try:
            await asyncio.to_thread(self._sink.close, time.monotonic() + MERGE_AT_END_S)
        except OSError as error:
            log.error("the last telemetry could not be written: %s", error)

    async def _flush_regularly(self) -> None:
        failing = False
        while True:
            await asyncio.sleep(FLUSH_S)
            try:
                await asyncio.to_thread(self._sink.flush)
                failing = False
                if refused := self._sink.take_refused():
                    log.error("%d rows of telemetry were lost: too many waited to be written", refused)
                    self._domains[0].event("recorder", "rows_lost", f"{refused} rows of all domains")
            except OSError as error:
                if not failing:
                    log.error("telemetry cannot be written: %s; kept in memory and tried again", error)
                failing = True
