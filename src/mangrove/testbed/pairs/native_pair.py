"""Two plain nats-servers joined by a leaf node over one emulated link: what NATS does without Mangrove.

Everything is left at the server's defaults, as somebody gets who configures a leaf node by its manual.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from mangrove.broker.nats.leaf_subscriptions import leaf_subscriptions
from mangrove.broker.nats.monitoring import broker_status
from mangrove.broker.nats.server import nats_server
from mangrove.errors import MangroveError
from mangrove.host.ports import PortReservation
from mangrove.host.process import ManagedProcess, stop_in_order
from mangrove.host.run_directory import RunDirectory
from mangrove.model.address import Address
from mangrove.model.endpoints import BrokerEndpoints
from mangrove.testbed.emulated_links import emulator, send_shape
from mangrove.testbed.load import PLAIN_OPTIONS, BrokerAddress
from mangrove.testbed.shaping import Shape
from mangrove.testbed.wan import WanLink, WanSettings, Way

HOST = "127.0.0.1"
LINK = "native"
JOINED_TIMEOUT_S = 15.0
POLL_S = 0.05


class NativePair:
    """Starts and stops the two servers and the link. Use as an async context manager."""

    def __init__(self, directory: Path, shape: Shape, seed: int) -> None:
        self._shape = shape
        self._ports = PortReservation()
        self._control = Address(HOST, self._ports.take(HOST))
        relay = Address(HOST, self._ports.take(HOST))
        leaf_port = self._ports.take(HOST)
        self._near, self._far = (
            BrokerEndpoints(
                name=f"native-{side}",
                host=HOST,
                client_port=self._ports.take(HOST),
                monitor_port=self._ports.take(HOST),
            )
            for side in ("near", "far")
        )
        link = WanLink(name=LINK, ways=(Way(listen=relay, target=Address(HOST, leaf_port)),), shape=shape)
        hub = f'leafnodes {{ listen: "{HOST}:{leaf_port}" }}'
        spoke = f'leafnodes {{ remotes: [ {{ url: "nats-leaf://{relay}" }} ] }}'
        self._processes: list[ManagedProcess] = [
            emulator(WanSettings(control=self._control, links=(link,), seed=seed), RunDirectory(directory)),
            nats_server(self._near.name, _config(self._near, directory, hub), directory),
            nats_server(self._far.name, _config(self._far, directory, spoke), directory),
        ]
        self._started: list[ManagedProcess] = []

    @property
    def near(self) -> BrokerAddress:
        """Where to publish."""
        return (HOST, self._near.client_port, PLAIN_OPTIONS)

    @property
    def far(self) -> BrokerAddress:
        """Where to subscribe, beyond the link."""
        return (HOST, self._far.client_port, PLAIN_OPTIONS)

    async def __aenter__(self) -> Self:
        try:
            for process in self._processes:
                await process.start()
                self._started.append(process)
            await self._joined()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Stop everything and give the ports back."""
        await stop_in_order(reversed(self._started))
        self._ports.release()

    async def black_hole(self, swallows: bool) -> None:
        """Let the link swallow everything, or let it work again."""
        await send_shape(self._control, LINK, msgspec.structs.replace(self._shape, black_hole=swallows))

    async def wants(self, *subjects: str) -> None:
        """Wait until the near side knows that these are wanted on the far side."""

        async def known() -> bool:
            return any(asked.issuperset(subjects) for asked in await leaf_subscriptions(self._near))

        await self._until(known, f"the near side never heard of subscriptions to {', '.join(subjects)}")

    async def _joined(self) -> None:
        async def joined() -> bool:
            return (await broker_status(self._near, "head")).attached_brokers > 0

        await self._until(joined, "the native leaf node did not connect")

    async def _until(self, condition: Callable[[], Awaitable[bool]], problem: str) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + JOINED_TIMEOUT_S
        while not await condition():
            if loop.time() > deadline:
                raise MangroveError(problem)
            await asyncio.sleep(POLL_S)


def _config(endpoints: BrokerEndpoints, directory: Path, leafnodes: str) -> str:
    return f"""
server_name: "{endpoints.name}"
listen: "{HOST}:{endpoints.client_port}"
http: "{HOST}:{endpoints.monitor_port}"
log_file: "{RunDirectory(directory).log(endpoints.name)}"
{leafnodes}
"""
