"""Where a process says what concerns security: `audit.note(kind, **facts)`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from mangrove.host.audit.audit_file import SUFFIX, AuditFile
from mangrove.model.audit.entry import AuditFigures, AuditKind, Fact
from mangrove.model.audit.gathering import Gathering, Noted

SETTLE_S = 5.0


class AuditLog:
    """Notes of one process, gathered and written. Without a file they are counted alone."""

    def __init__(self, file: AuditFile | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._file = file
        self._clock = clock
        self._gathering = Gathering()

    @classmethod
    def at(cls, path: str) -> AuditLog:
        """The log of a process, in the file that is called after it; "" is nowhere."""
        if not path:
            return cls()
        return cls(AuditFile(Path(path), Path(path).name.removesuffix(SUFFIX)))

    def note(self, kind: AuditKind, **facts: Fact) -> None:
        """Something happened. Never a secret among the facts; neither ports, which are always others."""
        self.add(kind, facts)

    def add(self, kind: AuditKind, facts: dict[str, Fact], times: int = 1) -> None:
        """The same, of something that happened so many times."""
        noted = self._gathering.note(kind, facts, self._clock(), times)
        if noted is not None:
            self._write(noted)

    def settle(self) -> None:
        """Every few seconds: write what has repeated itself."""
        for noted in self._gathering.due(self._clock()):
            self._write(noted)

    async def run(self) -> None:
        """Settle, until cancelled."""
        while True:
            await asyncio.sleep(SETTLE_S)
            self.settle()

    def close(self) -> None:
        """Write what is left, and let go of the file."""
        for noted in self._gathering.rest():
            self._write(noted)
        if self._file is not None:
            self._file.close()

    def figures(self) -> AuditFigures:
        """For the status of the process."""
        counts = {kind.value: times for kind, times in sorted(self._gathering.counts.items())}
        if self._file is None:
            return AuditFigures(counts=counts)
        return AuditFigures(counts=counts, head=self._file.head, failed=self._file.failed)

    def _write(self, noted: Noted) -> None:
        if self._file is not None:
            ago_s = None if noted.since is None else self._clock() - noted.since
            since = None if ago_s is None else time.time() - ago_s
            self._file.write(noted.kind, noted.facts, times=noted.times, since=since)
