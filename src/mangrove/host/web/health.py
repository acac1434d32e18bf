"""Whether a process lives and is ready, for systemd, containers and load balancers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec

from mangrove.host.web.exposition import exposition
from mangrove.host.web.page_server import JSON, Maker, Page, PageServer
from mangrove.model.address import Address
from mangrove.model.metrics.families import Families

HEALTHZ, READYZ, METRICS = "/healthz", "/readyz", "/metrics"


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """What a process needs to do its work, each with whether it has it."""

    process: str
    checks: dict[str, bool] = {}

    @property
    def ready(self) -> bool:
        """Whether nothing is missing."""
        return all(self.checks.values())


Counted = Callable[[], Awaitable[Families]]
"""Gathers the metrics of a process."""


def health_pages(readiness: Callable[[], Readiness], metrics: Counted | None = None) -> dict[str, Maker]:
    """The pages of a process. That it answers at all is proof that its event loop turns."""

    async def healthz() -> Page:
        return Page(msgspec.json.encode({"process": readiness().process, "alive": True}) + b"\n", JSON)

    async def readyz() -> Page:
        found = readiness()
        body = msgspec.json.encode({"ready": found.ready, **msgspec.structs.asdict(found)}) + b"\n"
        return Page(body, JSON, 200 if found.ready else 503)

    pages: dict[str, Maker] = {HEALTHZ: healthz, READYZ: readyz}
    if metrics is not None:

        async def counted() -> Page:
            # Of a large federation it takes a second, in which others want to be served.
            return await asyncio.to_thread(exposition, await metrics())

        pages[METRICS] = counted
    return pages


@asynccontextmanager
async def telling_health(
    at: Address | None,
    readiness: Callable[[], Readiness],
    metrics: Counted | None = None,
) -> AsyncIterator[PageServer | None]:
    """Serve the pages of a process while it does its work; nothing without an address."""
    if at is None:
        yield None
        return
    server = PageServer(at, health_pages(readiness, metrics))
    await server.start()
    try:
        yield server
    finally:
        await server.close()
