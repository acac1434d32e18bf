"""Child processes with an owner: started, watched, restarted when they die, ended with their parent.

A child asks the kernel to kill it when its parent dies (PR_SET_PDEATHSIG), so that not even `kill -9` of the
parent leaves a broker behind. The signal follows the *thread* that started the child: start processes from
the thread that lives longest, normally the main one.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import os
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from mangrove.errors import MangroveError

log = logging.getLogger(__name__)

READY_TIMEOUT_S = 30.0
# Whoever presses Ctrl-C waits five seconds at most: for all processes together, and for one that is alone.
STOP_WITHIN_S = 3.0
STOP_GRACE_S = 1.5
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
STABLE_AFTER_S = 10.0
_PR_SET_PDEATHSIG = 1


class ProcessFailedError(MangroveError):
    """A child process did not become ready."""

    def __init__(self, name: str, problem: str, log_path: Path, log_tail: str) -> None:
        self.name = name
        self.log_path = log_path
        tail = "".join(f"\n  | {line}" for line in log_tail.splitlines()[-8:])
        super().__init__(f"{name} {problem}{tail}", hint=f"the whole log is in {log_path}")


class ManagedProcess:
    """One child process and its log file."""

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        *,
        log_path: Path,
        ready_text: str,
        ready_within_s: float = READY_TIMEOUT_S,
        may_be_cut_short: bool = False,
    ) -> None:
        """One that `may_be_cut_short` has closed its files long before it ends, and is killed without ado."""
        self.name = name
        self.log_path = log_path
        self.restarts = 0
        self._argv = list(argv)
        self._ready_text = ready_text.encode()
        self._ready_within_s = ready_within_s
        self._killed_level = logging.DEBUG if may_be_cut_short else logging.WARNING
        self._process: asyncio.subprocess.Process | None = None
        self._watcher: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """The process id, while it runs."""
        running = self._process is not None and self._process.returncode is None
        return self._process.pid if running and self._process is not None else None

    async def start(self) -> None:
        """Start the process, wait until it says that it is ready, and watch it from then on."""
        try:
            await self._launch()
        except BaseException:
            await self._terminate()
            raise
        self._watcher = asyncio.create_task(self._watch(), name=f"watch {self.name}")

    async def stop(self, grace_s: float = STOP_GRACE_S) -> None:
        """End the process and stop watching it; what has not ended by itself after `grace_s` is killed."""
        if self._watcher is not None:
            self._watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watcher
            self._watcher = None
        await self._terminate(grace_s)

    async def kill(self) -> None:
        """End the process without warning, as a power cut would, and do not bring it back.

        The signal is sent before anything is awaited, so that several processes gathered die at once.
        """
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
        await self.stop()

    def signal(self, number: int) -> None:
        """Send a signal, if it runs."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def _launch(self) -> None:
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        offset = self.log_path.stat().st_size if self.log_path.exists() else 0
        parent = os.getpid()
        with self.log_path.open("ab") as output:
            self._process = await asyncio.create_subprocess_exec(
                *self._argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C reaches the parent alone, which ends its children in order
                preexec_fn=lambda: die_with_parent(parent),
            )
        await self._wait_until_ready(self._process, offset)

    async def _wait_until_ready(self, process: asyncio.subprocess.Process, offset: int) -> None:
        deadline = time.monotonic() + self._ready_within_s
        while self._ready_text not in self._log_since(offset):
            if process.returncode is not None:
                raise self._failure(f"exited with status {process.returncode} before it was ready", offset)
            if time.monotonic() > deadline:
                raise self._failure(f"was not ready within {self._ready_within_s:g} s", offset)
            await asyncio.sleep(0.02)

    def _log_since(self, offset: int) -> bytes:
        with self.log_path.open("rb") as log_file:
            log_file.seek(offset)
            return log_file.read(1 << 20)

    def _failure(self, problem: str, offset: int) -> ProcessFailedError:
        tail = self._log_since(offset).decode(errors="replace")
        return ProcessFailedError(self.name, problem, self.log_path, tail)

    async def _watch(self) -> None:
        """Restart the process whenever it ends by itself; pause longer the more often that happens."""
        pause_s = FIRST_PAUSE_S
        while True:
            assert self._process is not None
            started = time.monotonic()
            status = await self._process.wait()
            if time.monotonic() - started > STABLE_AFTER_S:
                pause_s = FIRST_PAUSE_S
            log.warning("%s ended with status %s; restarting in %.1f s", self.name, status, pause_s)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            self.restarts += 1
            try:
                await self._launch()
            except ProcessFailedError as error:
                log.error("%s", error.message)
                await self._terminate()
            else:
                log.warning("%s is back (restart %d)", self.name, self.restarts)

    async def _terminate(self, grace_s: float = STOP_GRACE_S) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(grace_s):
                await process.wait()
        except TimeoutError:
            log.log(self._killed_level, "%s did not end within %.1f s; killing it", self.name, grace_s)
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def stop_in_order(*stages: Iterable[ManagedProcess], within_s: float = STOP_WITHIN_S) -> None:
    """Stop the processes of one stage side by side, then those of the next.

    All of it is bounded: each stage has its share of the time that is left, after which what still runs, such
    as a process that is frozen, is killed. So it costs the others some of their time, but never all.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    for done, stage in enumerate(stages):
        grace_s = (deadline - loop.time()) / (len(stages) - done)
        await asyncio.gather(*(process.stop(grace_s) for process in stage))


if sys.platform == "linux":
    _libc = ctypes.CDLL(None, use_errno=True)

    def die_with_parent(parent: int) -> None:
        """Runs in the child between fork and exec."""
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent died before the request was in force
            os._exit(1)

else:

    def die_with_parent(parent: int) -> None:
        """Other systems have no such request; children end when their parent stops them."""
