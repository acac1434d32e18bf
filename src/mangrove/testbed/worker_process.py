"""Publishers and subscribers in processes of their own, told what to do over a pipe."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from multiprocessing.connection import Connection as Pipe
from multiprocessing.context import SpawnProcess
from typing import Any

_context = multiprocessing.get_context("spawn")

ANSWER_S = 60.0


class Worker:
    """A process of this testbed: started, asked and ended by its owner."""

    def __init__(self, target: Any, *arguments: Any) -> None:
        self._pipe, theirs = _context.Pipe()
        self._process: SpawnProcess = _context.Process(
            target=_begin, args=(target, theirs, *arguments), daemon=True
        )
        self._process.start()
        theirs.close()

    async def ask(self, command: str, argument: Any = None, timeout_s: float = ANSWER_S) -> Any:
        """Send a command and wait for its answer."""
        self._pipe.send((command, argument))
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while not self._pipe.poll():
            if not self._process.is_alive() or loop.time() > deadline:
                raise ChildProcessError(f"a process of the testbed did not answer {command!r}")
            await asyncio.sleep(0.01)
        return self._pipe.recv()

    def end(self) -> None:
        """End the process, whatever it does."""
        self._process.terminate()
        self._process.join(5.0)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._pipe.close()


def _begin(target: Any, *arguments: Any) -> None:
    """Ctrl-C is meant for the owner, who ends this process when it has cleaned up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    target(*arguments)


async def carry_out(pipe: Pipe, answers: dict[str, Any]) -> None:
    """Carry out commands until `end`."""
    ready = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(pipe.fileno(), ready.set)
    try:
        while True:
            await ready.wait()
            ready.clear()
            if not pipe.poll():  # said twice of one command: to wait for another would hold up everything
                continue
            command, argument = pipe.recv()
            answer = await answers[command](argument)
            os.set_blocking(pipe.fileno(), True)  # the loop made it not so: a long answer would be cut
            pipe.send(answer)
            if command == "end":
                return
    finally:
        loop.remove_reader(pipe.fileno())
