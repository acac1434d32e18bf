"""Runs the coroutine of a command: Ctrl-C and SIGTERM let it clean up first."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Coroutine
from typing import TypeVar

from mangrove.errors import EXIT_INTERRUPTED

T = TypeVar("T")


def run_async(main: Coroutine[None, None, T]) -> T:
    """Run to the end. An interruption cancels the command, which cleans up, and exits with 130."""
    import uvloop

    async def supervised() -> T:
        task = asyncio.current_task()
        assert task is not None
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, task.cancel)
        return await main

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            return runner.run(supervised())
        except asyncio.CancelledError:
            sys.exit(EXIT_INTERRUPTED)
