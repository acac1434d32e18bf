"""The one thing that pages and metrics ask: the federation as it is, heard once however many look at it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import msgspec

from mangrove.agent.inspection import federation_status
from mangrove.agent.story import related
from mangrove.errors import MangroveError
from mangrove.model.endpoints import Runtime
from mangrove.model.status import DomainStatus
from mangrove.monitor.feed.domain_follower import DomainFollower
from mangrove.monitor.feed.event_book import EventBook
from mangrove.monitor.feed.snapshot import Snapshot
from mangrove.monitor.feed.source import Source
from mangrove.monitor.told_event import ToldEvent

LOOK_S = 1.0
"""How often it is looked whether the federation still runs."""
GATHER_S = 0.1
"""Changes of so long are one version."""
LAST = 1_000


class LiveFeed:
    """Follows a federation from `start` to `close`: before it runs, while it does, and when it starts again.

    Everything is on one event loop. `snapshot` is replaced, never changed.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._snapshot = Snapshot(at=time.time())
        self._turned = asyncio.Event()
        self._dirty = asyncio.Event()
        self._followers: dict[str, DomainFollower] = {}
        self._book = EventBook()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def snapshot(self) -> Snapshot:
        """The federation as it was last heard."""
        return self._snapshot

    @property
    def version(self) -> int:
        """Of the snapshot."""
        return self._snapshot.version

    async def changed(self, seen: int, timeout_s: float | None = None) -> int:
        """Wait until there is a version after `seen`; returns the present one, which is `seen` if never."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self._snapshot.version <= seen:
                    await self._turned.wait()
        return self._snapshot.version

    def events(
        self, since: float | None = None, until: float | None = None, last: int = LAST
    ) -> tuple[ToldEvent, ...]:
        """The `last` events between two moments, in seconds since 1970, in order of time."""
        return self._book.between(since, until, last)

    def story(self, event_id: str) -> list[ToldEvent]:
        """An event with its causes and consequences; `InputError` if it is not known (any more)."""
        return related(self._book.events, event_id)

    async def start(self) -> None:
        """Begin to listen; what is not there yet is waited for."""
        self._task = asyncio.create_task(self._run(), name="live feed")

    async def close(self) -> None:
        """Let go of everything."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _run(self) -> None:
        while True:
            try:
                runtime = self._source.find()
            except MangroveError as error:
                self._show(
                    Snapshot(problem=f"{error.message}; {error.hint}" if error.hint else error.message)
                )
                await asyncio.sleep(LOOK_S)
                continue
            await self._follow(runtime)

    async def _follow(self, runtime: Runtime) -> None:
        """One life of a federation."""
        self._book = EventBook()
        self._followers = {
            name: DomainFollower(runtime, endpoints, self._dirty.set, self._told)
            for name, endpoints in runtime.domains.items()
        }
        self._dirty.set()
        async with asyncio.TaskGroup() as tasks:
            work = [tasks.create_task(each.run()) for each in self._followers.values()]
            work.append(tasks.create_task(self._turn(runtime)))
            try:
                while await self._still(runtime):
                    pass
            finally:
                for task in work:
                    task.cancel()

    def _told(self, domain: str, lines: Sequence[msgspec.Raw]) -> None:
        if self._book.take(domain, lines):
            self._dirty.set()

    async def _still(self, runtime: Runtime) -> bool:
        """Whether, a moment later, the same federation runs."""
        await asyncio.sleep(LOOK_S)
        try:
            return self._source.find() == runtime
        except MangroveError:
            return False

    async def _turn(self, runtime: Runtime) -> None:
        """Make a new version whenever something was heard."""
        while True:
            await self._dirty.wait()
            await asyncio.sleep(GATHER_S)
            self._dirty.clear()
            self._show(self._gathered(runtime))

    def _gathered(self, runtime: Runtime) -> Snapshot:
        followers = self._followers
        return Snapshot(
            runtime=runtime,
            status=federation_status(
                runtime.federation,
                [each.status or _unknown(name, runtime) for name, each in followers.items()],
            ),
            presence={name: each.presence for name, each in followers.items()},
            topics={name: each.topics for name, each in followers.items() if each.topics is not None},
            rates={name: each.rates for name, each in followers.items()},
        )

    def _show(self, snapshot: Snapshot) -> None:
        before = self._snapshot
        if snapshot.runtime is None and (before.runtime, before.problem) == (None, snapshot.problem):
            return  # nothing new about nothing
        self._snapshot = msgspec.structs.replace(snapshot, version=before.version + 1, at=time.time())
        turned, self._turned = self._turned, asyncio.Event()
        turned.set()


def _unknown(name: str, runtime: Runtime) -> DomainStatus:
    return DomainStatus(domain=name, brokers=(), gateway=None, agent_expected=runtime.agents)
