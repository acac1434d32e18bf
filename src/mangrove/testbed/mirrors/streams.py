"""Two ends of streams of numbered messages over one kind of client, opened anew for every fault."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from mangrove.errors import MangroveError
from mangrove.testbed.accounting import Figures, Span
from mangrove.testbed.mirrors.account import account
from mangrove.testbed.mirrors.workers import Sent, run_worker
from mangrove.testbed.worker_process import Worker

REST_S = 0.5
CALM_S = 0.7
"""When nothing has come for so long after publishing ended, nothing is under way any more."""
LONGEST_S = 30.0
PLACED_S = 10.0


class StreamsUnableError(MangroveError):
    """Clients could not begin: brokers are not yet there again."""


class Streams:
    """A process that publishes and one that subscribes. Use as a context manager."""

    def __init__(self, kind: str, subjects: Sequence[str], mirrored: Sequence[str], rate_s: float) -> None:
        self._kind = kind
        self._subjects = list(subjects)
        self._mirrored = list(mirrored)
        self._rate_s = rate_s

    def __enter__(self) -> Self:
        self._publisher = Worker(run_worker, self._kind)
        self._subscriber = Worker(run_worker, self._kind)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._publisher.end()
        self._subscriber.end()

    async def begin(self, publisher_urls: list[str], subscriber_urls: list[str]) -> None:
        """Connect both ends, and publish; return when all mirrors are in use."""
        await asyncio.gather(
            self._do(self._publisher, "open", publisher_urls),
            self._do(self._subscriber, "open", subscriber_urls),
        )
        await self._do(self._subscriber, "subscribe", self._subjects)
        await self._publisher.ask("publish", (self._subjects, self._rate_s))
        await asyncio.gather(
            self._do(self._publisher, "mirrored", self._mirrored),
            self._do(self._subscriber, "mirrored", self._mirrored),
        )
        await asyncio.sleep(REST_S)

    async def place(self, subject: str) -> tuple[str, str]:
        """The broker that serves a subject, and its mirror."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PLACED_S
        while True:
            brokers: tuple[str, str] = await self._subscriber.ask("place", subject)
            if all(brokers):
                return brokers
            if loop.time() > deadline:
                raise StreamsUnableError(f"{subject} has no two brokers: {brokers}")
            await asyncio.sleep(0.1)

    async def end(self, span: Span) -> tuple[dict[str, Figures], float]:
        """Publish no more; what became of each stream, and how long the publisher waited for a processor."""
        sent: Sent = await self._publisher.ask("stop")
        await self._arrived()
        arrived = await self._subscriber.ask("arrivals")
        await self.close()
        return account(sent.times, arrived, span), sent.waited_ns / 1e6

    async def _arrived(self) -> None:
        """Nothing has come for a while, or for far too long something has."""
        known, came = -1, 0
        async with asyncio.timeout(LONGEST_S):
            while came != known:
                known = came
                await asyncio.sleep(CALM_S)
                came = await self._subscriber.ask("arrived")

    async def close(self) -> None:
        """Disconnect both ends."""
        await asyncio.gather(self._publisher.ask("close"), self._subscriber.ask("close"))

    async def _do(self, worker: Worker, command: str, argument: list[str]) -> None:
        if problem := await worker.ask(command, argument):
            raise StreamsUnableError(f"{self._kind}: {command}: {problem}")
