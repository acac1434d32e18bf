"""Writes down which processes of a host started and ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from mangrove.host.audit.audit_log import AuditLog
from mangrove.host.process import ManagedProcess
from mangrove.model.audit.entry import AuditKind

LOOK_S = 0.5


class ProcessBook:
    """Looks at the processes of one host; one that dies and is back between two looks has another number."""

    def __init__(self, processes: Callable[[], Iterable[ManagedProcess]], audit: AuditLog) -> None:
        self._processes = processes
        self._audit = audit
        self._seen: dict[str, int] = {}

    async def run(self) -> None:
        """Look now and then, until cancelled."""
        while True:
            self.look()
            self._audit.settle()
            await asyncio.sleep(LOOK_S)

    def look(self) -> None:
        """Note what has changed since the last time."""
        for process in self._processes():
            before = self._seen.get(process.name)
            pid = process.pid
            if pid == before:
                continue
            if before is not None:
                self._audit.note(AuditKind.PROCESS_STOPPED, name=process.name, restarts=process.restarts)
                del self._seen[process.name]
            if pid is not None:
                self._audit.note(AuditKind.PROCESS_STARTED, name=process.name, restarts=process.restarts)
                self._seen[process.name] = pid
