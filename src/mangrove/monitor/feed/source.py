"""Which federation a feed follows: one that is looked for on this machine, or one that is given."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import msgspec

from mangrove.host.runtime_file import find_running_directory, read_runtime
from mangrove.model.endpoints import Runtime


class Found(msgspec.Struct, frozen=True):
    """A federation that runs, and the folder of its events."""

    runtime: Runtime
    events: Path | None


class Source(Protocol):
    """Finds the federation, again and again: it may start late, end, and start anew."""

    def find(self) -> Found:
        """The federation that runs now; `MangroveError`, with a hint, if there is none."""


class OnThisMachine:
    """The federation of a name or in a directory, or the only one that runs here."""

    def __init__(self, name: str | None = None, run_dir: Path | None = None) -> None:
        self._name = name
        self._run_dir = run_dir

    def find(self) -> Found:
        """Look at the lock and the runtime file."""
        directory = find_running_directory(self._name, self._run_dir)
        return Found(read_runtime(directory), directory.events)


class Given:
    """A federation that somebody else takes care of."""

    def __init__(self, runtime: Runtime, events: Path | None = None) -> None:
        self._found = Found(runtime, events)

    def find(self) -> Found:
        """Always the same."""
        return self._found
