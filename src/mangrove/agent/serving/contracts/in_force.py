"""The document by which agents and hosts act: the one that their domain's gateway has put in force.

An agent makes much of the contracts beforehand. When others are in force it ends this life and begins
another, in the same process: the leadership passes on as at any other end, and messages flow without agents.
Changes that follow each other closely cost one new life.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from mangrove.errors import InputError
from mangrove.host.versions.reloaded_file import ReloadedFile
from mangrove.host.versions.version_store import VersionStore
from mangrove.model.federation import Federation
from mangrove.model.versions.document import FIRST_VERSION, in_force
from mangrove.model.versions.kept import KeptVersions

log = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
SETTLED_LOOKS = 2
"""So often the same is found before an agent acts by it."""


class ContractsInForce:
    """Reads what the gateway of the same machine has written down, and what the site has reloaded."""

    def __init__(self, path: str, reloaded: str = "", *, look_every_s: float = LOOK_EVERY_S) -> None:
        """Without a path, there is nothing but the file; with one to what was `reloaded`, in its place."""
        self._reloaded = ReloadedFile(Path(reloaded)) if reloaded else None
        self._taken = 0
        self._store = VersionStore(Path(path)) if path else None
        self._look_every_s = look_every_s
        self.version = FIRST_VERSION
        self._stamp = (0, 0)

    def news(self, file: Federation) -> Federation | None:
        """The site's federation as it is in force, if something was written down since the last call."""
        stamp = (0 if self._store is None else self._store.stamp(), self._reloaded_stamp())
        if stamp == self._stamp:
            return None
        self._stamp = stamp
        return self.federation(file)

    def federation(self, file: Federation) -> Federation:
        """The site's federation with what is in force."""
        self._taken = self._reloaded_stamp()
        if self._reloaded is not None:
            file = self._reloaded.read(file)
        committed = self._read().committed
        if committed is None:
            return file
        document = committed.read()
        self.version = document.version
        return in_force(file, document)

    async def changed(self) -> None:
        """Return when another version than the one that was read last is in force, and stays; or when the
        site has reloaded its own settings."""
        known = (self.version, self._taken)
        seen, looks = known, 0
        while looks < SETTLED_LOOKS:
            await asyncio.sleep(self._look_every_s)
            committed = self._read().committed
            version = FIRST_VERSION if committed is None else committed.read().version
            found = (version, self._reloaded_stamp())
            looks = looks + 1 if found == seen != known else 0
            seen = found

    def _reloaded_stamp(self) -> int:
        return 0 if self._reloaded is None else self._reloaded.stamp()

    def _read(self) -> KeptVersions:
        if self._store is None:
            return KeptVersions()
        try:
            return self._store.read()
        except InputError as error:
            log.warning("the contracts in force cannot be read: %s", error.message)
            return KeptVersions()
