"""How our child processes run: settings from a file, a log on stderr, an end in order when told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TypeVar

import msgspec

from mangrove.errors import InputError, MangroveError
from mangrove.host.log_limit import LogLimit
from mangrove.model.unreadable import UNREADABLE

S = TypeVar("S", bound=msgspec.Struct)

WRITTEN_BY = "it is written by `mangrove up`"


def read_settings(path: Path, kind: type[S]) -> S:
    """A settings file as the process that starts this one wrote it."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, *UNREADABLE) as error:
        raise InputError(f"cannot read the settings {path}: {error}", hint=WRITTEN_BY) from None


def run_daemon(kind: type[S], serve: Callable[[S], Coroutine[None, None, None]]) -> None:
    """Serve with the settings that the first argument names, until SIGTERM or SIGINT cancels it."""
    import uvloop

    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    for handler in logging.getLogger().handlers:
        handler.addFilter(LogLimit())
    try:
        settings = read_settings(Path(sys.argv[1]), kind)
        uvloop.run(_until_told(serve(settings)))
    except MangroveError as error:
        sys.stderr.write(f"error: {error.message}\nhint: {error.hint}\n")
        sys.exit(error.exit_code)


async def _until_told(serving: Coroutine[None, None, None]) -> None:
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await serving
