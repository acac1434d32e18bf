"""The live view beside a demonstration: a process of its own, which ends with it and cannot disturb it."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Coroutine
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from mangrove.cli.monitoring.monitor import READY, open_page
from mangrove.cli.output import stderr_console

if TYPE_CHECKING:
    from mangrove.host.process import ManagedProcess

T = TypeVar("T")


async def watched(directory: Path, demonstration: Coroutine[None, None, T], *, wanted: bool) -> T:
    """Run a demonstration in a directory, with a monitor of it in a browser if that is wanted."""
    if not wanted:
        return await demonstration
    if find_spec("nicegui") is None:
        stderr_console().print("the live view needs: pip install 'mangrove-messaging[monitor]'")
        return await demonstration
    from mangrove.host.process import ManagedProcess
    from mangrove.host.run_directory import RunDirectory

    argv = [sys.executable, "-m", "mangrove.cli.main", "monitor", "--port", "0", "--run-dir", str(directory)]
    log = RunDirectory(directory).log("monitor")
    process = ManagedProcess("monitor", argv, log_path=log, ready_text=READY)
    opening = asyncio.create_task(_opened(process))
    try:
        return await demonstration
    finally:
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
        await process.stop()


async def _opened(process: ManagedProcess) -> None:
    """Start it, and show where it is; a demonstration goes on without it."""
    from mangrove.host.process import ProcessFailedError

    try:
        await process.start()
    except ProcessFailedError as error:
        stderr_console().print(f"there is no live view: {error.message}", highlight=False, markup=False)
        return
    told = re.findall(rf"{READY} (http://\S+)", process.log_path.read_text(errors="replace"))
    if told:
        stderr_console().print(f"live view: {told[-1]}", highlight=False)
        open_page(told[-1])
