"""Which federation a feed follows: one that runs on this machine, that a file tells of, or that is given."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import msgspec

from mangrove.host.keys.directory import KeyDirectory
from mangrove.host.runtime_file import find_running
from mangrove.model.endpoints import DomainEndpoints, Runtime, fixed_endpoints
from mangrove.model.federation import Domain, Federation


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


class Elsewhere:
    """The sites of a federation file, wherever they run: nothing of them needs to be on this machine.

    `keys` is a key directory in which there are those of the sites that can be looked at.
    """

    def __init__(self, federation: Federation, keys: Path | None = None) -> None:
        self._federation = federation
        self._keys = keys

    def find(self) -> Runtime:
        """As the file has it; whether the sites run shows when they are listened to."""
        return Runtime(
            federation=self._federation,
            domains={name: self._at(domain) for name, domain in self._federation.domains.items()},
            pid=0,
            agents=True,
            keys="" if self._keys is None else str(self._keys),
        )

    def _at(self, domain: Domain) -> DomainEndpoints:
        endpoints = fixed_endpoints(domain)
        if self._keys is None:
            return endpoints
        folder = KeyDirectory(self._keys).domain(domain.name).path
        return msgspec.structs.replace(endpoints, keys=str(folder) if folder.is_dir() else "")


class Given:
    """A federation that somebody else takes care of."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def find(self) -> Runtime:
        """Always the same."""
        return self._runtime
