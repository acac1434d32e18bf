"""The file by which a running federation is found on this machine, and the lock that says it runs."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import IO

import msgspec

from mangrove.errors import InputError, MangroveError
from mangrove.host.run_directory import RunDirectory, known_run_directories
from mangrove.model.endpoints import Runtime
from mangrove.model.unreadable import UNREADABLE


def lock_directory(run: RunDirectory) -> IO[str]:
    """Take the lock of a run directory for as long as the returned file stays open."""
    run.path.mkdir(parents=True, exist_ok=True)
    lock = run.lock.open("a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise MangroveError(
            f"a federation already runs in {run.path}",
            hint="stop it first, or give this one another place with --run-dir",
        ) from None
    return lock


def write_runtime(run: RunDirectory, runtime: Runtime) -> None:
    """Say where everything listens. Readers see the old file or the new one, never a part."""
    temporary = run.runtime.with_suffix(".tmp")
    temporary.write_bytes(msgspec.json.encode(runtime))
    temporary.rename(run.runtime)


def is_running(run: RunDirectory) -> bool:
    """Whether a federation holds the lock of a run directory."""
    try:
        with run.lock.open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def read_runtime(run: RunDirectory) -> Runtime:
    """The runtime file of a directory."""
    try:
        return msgspec.json.decode(run.runtime.read_bytes(), type=Runtime)
    except (OSError, *UNREADABLE) as error:
        raise InputError(f"cannot read {run.runtime}: {error}") from None


def find_running(name: str | None = None, run_dir: Path | None = None) -> Runtime:
    """The running federation of that name or directory, or the only one that runs."""
    return read_runtime(find_running_directory(name, run_dir))


def find_running_directory(name: str | None = None, run_dir: Path | None = None) -> RunDirectory:
    """Where the running federation of that name, or the only one that runs, keeps its files."""
    if run_dir is not None:
        given = RunDirectory(run_dir)
        if not is_running(given):
            raise MangroveError(f"no federation runs in {run_dir}", hint="start one with: mangrove up FILE")
        return given
    running = [run for run in known_run_directories() if is_running(run)]
    if name is not None:
        running = [run for run in running if run.path.name == name]
        if not running:
            raise MangroveError(
                f"the federation {name!r} does not run here", hint="start it: mangrove up FILE"
            )
    if not running:
        raise MangroveError(
            "no federation runs on this machine", hint="start one with: mangrove up FILE (or mangrove demo)"
        )
    if len(running) > 1:
        names = ", ".join(run.path.name for run in running)
        raise InputError(f"several federations run here: {names}", hint="choose one with --federation")
    return running[0]
