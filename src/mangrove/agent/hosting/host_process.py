"""One host of a domain as a process of this machine that can be killed, frozen and cut off by itself."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import msgspec

from mangrove.agent.hosting.settings import HOST_READY, HostSettings, supervisor_process
from mangrove.host.daemon_start import daemon_command
from mangrove.host.private_file import write_private
from mangrove.host.process import ManagedProcess
from mangrove.host.run_directory import RunDirectory

SUPERVISOR_MODULE = "mangrove.agent.hosting.supervisor"


class HostProcess:
    """A host's supervisor, and through it everything that runs there.

    `inside` is put before its command, such as `ip netns exec NAME`: then the host has a network of its own
    that can be cut off.
    """

    def __init__(self, settings: HostSettings, *, inside: Sequence[str] = ()) -> None:
        self.domain = settings.domain
        self.host = settings.host
        name = supervisor_process(settings.domain, settings.host)
        run = RunDirectory(Path(settings.directory))
        path = run.settings(name)
        write_private(path, msgspec.json.encode(settings))
        self.process = ManagedProcess(
            name,
            [*inside, *daemon_command(SUPERVISOR_MODULE, path)],
            log_path=run.log(name),
            ready_text=HOST_READY,
        )

    async def start(self) -> None:
        """Start everything on the host, and wait until it serves."""
        await self.process.start()

    async def kill(self) -> None:
        """End everything on the host at once, as a power cut would; it stays dark until it is started."""
        await self.process.kill()

    def freeze(self) -> None:
        """Stop everything on the host where it is; connections stay open and nobody answers."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let everything go on."""
        self._signal(signal.SIGCONT)

    def pid_of(self, process: str) -> int | None:
        """The process id of a broker, gateway or agent on this host, by its name; None if it does not run."""
        endings = (f"/{process}.conf", f"/{process}.json")
        for pid in self._children():
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
                if any(word.endswith(endings) for word in words):
                    return pid
        return None

    def _children(self) -> list[int]:
        pid = self.process.pid
        if pid is None:
            return []
        found: list[int] = []
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += map(int, task.read_text().split())
        return found

    def _signal(self, number: int) -> None:
        pid = self.process.pid
        for each in [] if pid is None else [pid, *self._children()]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, number)
