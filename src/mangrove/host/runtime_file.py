"""The file by which a running federation is found on this machine, and the lock that says it runs."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO

import msgspec

from mangrove.errors import InputError, MangroveError
from mangrove.model.endpoints import Runtime

FILE = "runtime.json"
LOCK = "lock"


def state_directory() -> Path:
    """Where running federations keep their files: MANGROVE_STATE_DIR, or the user's state directory."""
    override = os.environ.get("MANGROVE_STATE_DIR")
    if override:
        return Path(override)
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "mangrove"


def lock_directory(directory: Path) -> IO[str]:
    """Take the lock of a run directory for as long as the returned file stays open."""
    directory.mkdir(parents=True, exist_ok=True)
    lock = (directory / LOCK).open("a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise MangroveError(
            f"a federation already runs in {directory}",
            hint="stop it first, or give this one another place with --run-dir",
        ) from None
    return lock


def write_runtime(directory: Path, runtime: Runtime) -> None:
    """Say where everything listens. Readers see the old file or the new one, never a part."""
    temporary = directory / f".{FILE}.tmp"
    temporary.write_bytes(msgspec.json.encode(runtime))
    temporary.rename(directory / FILE)


def is_running(directory: Path) -> bool:
    """Whether a federation holds the lock of a run directory."""
    try:
        with (directory / LOCK).open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def read_runtime(directory: Path) -> Runtime:
    """The runtime file of a directory."""
    try:
        return msgspec.json.decode((directory / FILE).read_bytes(), type=Runtime)
    except (OSError, msgspec.DecodeError) as error:
        raise InputError(f"cannot read {directory / FILE}: {error}") from None


def find_running(name: str | None = None, run_dir: Path | None = None) -> Runtime:
    """The running federation of that name or directory, or the only one that runs."""
    return read_runtime(find_running_directory(name, run_dir))


def find_running_directory(name: str | None = None, run_dir: Path | None = None) -> Path:
    """Where the running federation of that name, or the only one that runs, keeps its files."""
    if run_dir is not None:
        if not is_running(run_dir):
            raise MangroveError(f"no federation runs in {run_dir}", hint="start one with: mangrove up FILE")
        return run_dir
    base = state_directory()
    candidates = sorted(path.parent for path in base.glob(f"*/{FILE}")) if base.is_dir() else []
    running = [path for path in candidates if is_running(path)]
    if name is not None:
        running = [path for path in running if path.name == name]
        if not running:
            raise MangroveError(
                f"the federation {name!r} does not run here", hint="start it: mangrove up FILE"
            )
    if not running:
        raise MangroveError(
            "no federation runs on this machine", hint="start one with: mangrove up FILE (or mangrove demo)"
        )
    if len(running) > 1:
        names = ", ".join(path.name for path in running)
        raise InputError(f"several federations run here: {names}", hint="choose one with --federation")
    return running[0]
