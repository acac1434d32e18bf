"""Versions of the federation document on a host that has no gateway: asked of the one that carries.

What is in force is written down as a gateway writes it, in a folder of its own, so that agents and brokers of
this host act by it like those beside a gateway. It is never told to other domains: the folder is not that of
a gateway, and holds no promise.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from mangrove.agent.management import ManagementConnection
from mangrove.errors import InputError
from mangrove.host.versions.version_store import VersionStore
from mangrove.model.endpoints import DomainEndpoints
from mangrove.model.questions.versions_question import VersionsRequest
from mangrove.model.security.users import HOST_USER
from mangrove.model.versions.document import FIRST_VERSION, WrittenDocument
from mangrove.model.versions.kept import KeptVersions

log = logging.getLogger(__name__)

ASK_EVERY_S = 1.0


class FollowedVersions:
    """Asks, and writes down what is new."""

    def __init__(self, folder: Path, endpoints: DomainEndpoints, *, ask_every_s: float = ASK_EVERY_S) -> None:
        self._store = VersionStore(folder)
        self._endpoints = endpoints
        self._ask_every_s = ask_every_s
        self._version = FIRST_VERSION

    async def run(self) -> None:
        """Follow until cancelled; a gateway that is away is asked again."""
        try:
            committed = self._store.read().committed
        except InputError as error:
            log.warning("%s", error.message)
            committed = None
        if committed is not None:
            self._version = committed.read().version
        async with ManagementConnection(self._endpoints, HOST_USER) as management:
            while True:
                answer = await management.versions(VersionsRequest(newer_than=self._version))
                if answer is not None and answer.document:
                    await self._take(WrittenDocument(text=answer.document))
                await asyncio.sleep(self._ask_every_s)

    async def _take(self, written: WrittenDocument) -> None:
        try:
            version = written.read().version
        except ValueError as error:
            log.warning("the gateway tells of a version that cannot be read: %s", error)
            return
        if version > self._version:
            await asyncio.to_thread(self._store.write, KeptVersions(committed=written))
            self._version = version
