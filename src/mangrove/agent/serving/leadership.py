"""Keeps trying to lead, and tells the brain when that begins and ends."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable

from mangrove.agent.serving.lease import Lease
from mangrove.control.stimuli import LeadershipTaken
from mangrove.store.buckets import DIRECTORY, Buckets, StoreAwayError
from mangrove.store.directory import StoredDirectory, read_directory, usable
from mangrove.store.fence import FencedError
from mangrove.store.replica import DirectoryReplica
from mangrove.store.sessions import read_sessions

log = logging.getLogger(__name__)

RETRY_S = 0.5
ACQUAINTANCE_S = 0.3
"""Where there may be other agents, a new one first hears of them: the strongest is to lead."""
UNUSABLE = "records of the store that could not be used"


class Leadership:
    """The lease of this agent, and what the store held when it was taken."""

    def __init__(
        self,
        domain: str,
        agent: str,
        buckets: Buckets,
        taken: Callable[[LeadershipTaken], None],
        refused: Counter[str],
        *,
        rank: Callable[[str], int] = lambda _last_leader: 0,
        changed: Callable[[int], None] | None = None,
    ) -> None:
        """`taken` is called once for each term, when everything of before has been read.

        `rank` says how many other agents are stronger. `changed`, if there can be others, is called with each
        new revision of this agent's record.

        What of that could not be used is counted in `refused`.
        """
        self._domain = domain
        self._buckets = buckets
        self._taken = taken
        self._refused = refused
        self._told_term = 0
        self._new = asyncio.Event()
        """Set when the lease was taken in a term that the brain does not know of."""
        self.lease = Lease(buckets, agent, rank)
        self._changed = changed
        self._revision = 0
        self._replica = DirectoryReplica(buckets, lambda: not self.lease.held)
        self.problem = ""
        """Why the store could not be asked, if so."""
        self.settled = asyncio.Event()
        """Set once this agent leads, or knows who does."""

    async def run(self) -> None:
        """Renew or try, and read what is there after each take-over, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep(), name="lease")
            tasks.create_task(self._take_over(), name="take over")
            if self._changed is not None:
                tasks.create_task(self._replica.run(), name="directory replica")

    async def _keep(self) -> None:
        if self._changed is not None:
            await asyncio.sleep(ACQUAINTANCE_S)
        while True:
            try:
                if await self.lease.attempt():
                    if self.lease.term != self._told_term:
                        self._new.set()
                elif self.lease.leader:
                    self.settled.set()
                self.problem = ""
                self._tell_others()
            except StoreAwayError as error:
                if not self.problem:
                    log.warning("leadership: %s", error.message)
                self.problem = error.message
            await self.lease.wait()

    def _tell_others(self) -> None:
        """Others count from when they see the record change: they are told, and so agree on when it ends."""
        if self._changed is not None and self.lease.revision != self._revision:
            self._revision = self.lease.revision
            self._changed(self._revision)

    async def _read_directory(self) -> StoredDirectory:
        """What this agent holds of it as a follower, or else what the store does."""
        held = await self._replica.through(self._buckets.fence_revision(DIRECTORY))
        if held is not None:
            return usable(held, self._domain)
        return await read_directory(self._buckets, self._domain)

    async def _take_over(self) -> None:
        """A take-over may take seconds, while the lease goes on to be renewed."""
        while True:
            await self._new.wait()
            term = self.lease.term
            try:
                # First of all: what is read then is not changed by whoever led before.
                await self._buckets.raise_fences(term)
                directory = await self._read_directory()
                sessions = await read_sessions(self._buckets)
            except (StoreAwayError, FencedError) as error:
                log.warning("what was there before cannot be read: %s", error.message)
                if not self.lease.held:
                    self._new.clear()
                await asyncio.sleep(RETRY_S)
                continue
            if self.lease.term == term:
                self._new.clear()
                if self.lease.held:
                    if directory.unusable:
                        self._refused[UNUSABLE] += directory.unusable
                    self._told_term = term
                    log.info("leads in term %d", term)
                    self._taken(LeadershipTaken(term, directory.records, sessions))
                    self.settled.set()
