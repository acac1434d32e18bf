"""A management broker by itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import nats
from nats.aio.client import Client

from mangrove.broker.kinds import management_kind
from mangrove.config import parse_federation
from mangrove.host.ports import PortReservation
from mangrove.host.process import ManagedProcess
from mangrove.model.endpoints import lay_out

SITE = "federation: one\ndomains:\n  here: {edges: 1}\n"


class ManagementBroker:
    """A broker that can be ended and started, and connections to it that come back by themselves."""

    def __init__(self, process: ManagedProcess, url: str) -> None:
        self.process = process
        self.url = url
        self._connections: list[Client] = []

    async def connect(self) -> Client:
        async def quiet(_: Exception) -> None:
            """A broker that is away is part of these tests."""

        made = await nats.connect(
            self.url, max_reconnect_attempts=-1, reconnect_time_wait=0, connect_timeout=1, error_cb=quiet
        )
        self._connections.append(made)
        return made

    async def close(self) -> None:
        for each in self._connections:
            await each.close()
        await self.process.stop()


@asynccontextmanager
async def management_broker(directory: Path) -> AsyncIterator[ManagementBroker]:
    """A running one."""
    domain = parse_federation(SITE, "one").require().domains["here"]
    with PortReservation() as ports:
        management = lay_out(domain, lambda _: ports.take("127.0.0.1")).management
        process = management_kind().management_server(management, directory)
        await process.start()
        broker = ManagementBroker(process, management.client_url)
        try:
            yield broker
        finally:
            await broker.close()
