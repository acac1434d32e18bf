"""Runs the coroutine of a command: Ctrl-C and SIGTERM let it clean up first."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import TypeVar

from mangrove.errors import EXIT_INTERRUPTED

T = TypeVar("T")

_INTERRUPTIONS = (signal.SIGINT, signal.SIGTERM)


def run_async(
    main: Coroutine[None, None, T], loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None
) -> T:
    """Run to the end. An interruption cancels the command, which cleans up, and exits with 130.

    The loop hears of it, between two callbacks: an exception that breaks in anywhere may be lost. Loops are
    uvloop's unless a `loop_factory` makes them.
    """
    if loop_factory is None:
        import uvloop

        loop_factory = uvloop.new_event_loop

    async def supervised() -> T:
        task = asyncio.current_task()
        assert task is not None
        loop = asyncio.get_running_loop()
        for number in _INTERRUPTIONS:
            loop.add_signal_handler(number, task.cancel)
        return await main

    before = {number: signal.getsignal(number) for number in _INTERRUPTIONS}
    try:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            return runner.run(supervised())
    except asyncio.CancelledError:
        sys.exit(EXIT_INTERRUPTED)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)  # a loop that is closed leaves what the system does
