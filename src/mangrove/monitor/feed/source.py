"""Which federation a feed follows: one that is looked for on this machine, or one that is given."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from mangrove.host.runtime_file import find_running
from mangrove.model.endpoints import Runtime


class Source(Protocol):
    """Finds the federation, again and again: it may start late, end, and start anew."""

    def find(self) -> Runtime:
        """The federation that runs now; `MangroveError`, with a hint, if there is none."""


class OnThisMachine:
    """The federation of a name or in a directory, or the only one that runs here."""

    def __init__(self, name: str | None = None, run_dir: Path | None = None) -> None:
        self._name = name
        self._run_dir = run_dir

    def find(self) -> Runtime:
        """Look at the lock and the runtime file."""
        return find_running(self._name, self._run_dir)


class Given:
    """A federation that somebody else takes care of."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def find(self) -> Runtime:
        """Always the same."""
        return self._runtime
