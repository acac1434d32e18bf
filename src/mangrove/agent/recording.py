"""Telemetry of the sites that run on this machine, for as long as they run: the recorder as a child process.

The recorder serves nobody, so nobody waits for it: when it does not become ready, all else runs without it,
and at the end it is told to stop first and waited for last.
"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from mangrove.agent.recorder.settings import RecorderSettings
from mangrove.host.daemon_start import daemon_command
from mangrove.host.process import ManagedProcess, ProcessFailedError
from mangrove.host.run_directory import RunDirectory
from mangrove.model.address import Address
from mangrove.model.endpoints import DomainEndpoints
from mangrove.model.federation import Federation
from mangrove.model.hosting.health_ports import HealthPort, health_address
from mangrove.model.shared_names import RECORDER_PROCESS, RECORDER_READY

log = logging.getLogger(__name__)

RECORDER_MODULE = "mangrove.agent.recorder.daemon"
STOP_GRACE_S = 3.0


def recorder_process(settings: RecorderSettings, run: RunDirectory) -> ManagedProcess:
    """A recorder that will run with these settings."""
    path = run.settings(RECORDER_PROCESS)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.encode(settings))
    return ManagedProcess(
        RECORDER_PROCESS,
        daemon_command(RECORDER_MODULE, path),
        log_path=run.log(RECORDER_PROCESS),
        ready_text=RECORDER_READY,
    )


class Recording:
    """The recorder of one run, at most one process. Use as an async context manager around what is recorded.

    Without `lake`, nothing is recorded. Recording needs Arrow; a machine that only carries messages may not
    have it, and runs all the same.
    """

    def __init__(self, run: RunDirectory, lake: Path | None) -> None:
        self.process: ManagedProcess | None = None
        self._run = run
        self._lake = lake
        self._stopping: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.begin_stop()
        if self._stopping is not None:
            await self._stopping

    async def start(
        self, federation: Federation, domains: Sequence[DomainEndpoints], keys: Path | None = None
    ) -> str:
        """Begin to record; returns what to tell the user."""
        if self._lake is None:
            return "No telemetry is recorded."
        if importlib.util.find_spec("pyarrow") is None:
            return (
                "No telemetry is recorded: pyarrow is missing "
                "(pip install 'mangrove-messaging\\[pipelines]')."
            )
        settings = RecorderSettings(
            federation=federation,
            domains=tuple(domains),
            lake=str(self._lake.resolve()),
            keys="" if keys is None else str(keys),
            health=_health(federation, domains, secured=keys is not None),
        )
        process = recorder_process(settings, self._run)
        try:
            await process.start()
        except ProcessFailedError as failure:
            log.error("%s", failure.message)
            return f"No telemetry is recorded: the recorder did not start. Its log: {process.log_path}."
        self.process = process
        return f"Telemetry: {self._lake}."

    def begin_stop(self) -> None:
        """Tell the recorder to write what it has and to end; the end of the context waits for it."""
        if self.process is not None and self._stopping is None:
            self._stopping = asyncio.create_task(self.process.stop(STOP_GRACE_S), name="stop the recorder")


def _health(federation: Federation, domains: Sequence[DomainEndpoints], *, secured: bool) -> Address | None:
    """Where the recorder of this machine tells of its health: with the first domain that does."""
    for endpoints in domains:
        domain = federation.domains[endpoints.domain]
        found = health_address(domain, domain.all_hosts[0].name, HealthPort.RECORDER, secured=secured)
        if found is not None:
            return found
    return None
