"""Gateways without brokers, in the test's own process: real engines and real links, over loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from time import monotonic

from tests.kit.waiting import eventually

from mangrove.gateway.links.links import Links
from mangrove.gateway.trust.keys_in_force import KeysInForce
from mangrove.host.ports import PortReservation
from mangrove.model.address import Address
from mangrove.model.federation import Federation
from mangrove.model.gateway_settings import Call
from mangrove.overlay.engine import OverlayEngine
from mangrove.overlay.instructions import CloseLink, DeliverMessages, Instruction, SendFrame, ServeLink

HOST = "127.0.0.1"


class LinkedGateway:
    """One gateway: what is delivered to it is kept, what it refuses is written down."""

    def __init__(
        self, shape: Federation, domain: str, port: int, keys: KeysInForce | None = None, epoch: int = 1
    ) -> None:
        self.domain = domain
        self.address = Address(HOST, port)
        self.keys = keys
        self.engine = OverlayEngine(shape, domain, epoch)
        self.delivered: list[bytes] = []
        self.audited: list[tuple[str, dict[str, object]]] = []
        self.links = Links(
            self.engine,
            tuple(link.other(domain) for link in shape.links_of(domain)),
            carry_out=self._carry_out,
            attached=self._tick,
            keys=keys,
            audit=lambda kind, **facts: self.audited.append((kind, facts)),
        )
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._servers: list[asyncio.Server] = []

    async def start(self) -> None:
        self._servers = await self.links.listen((self.address,))
        self._tasks.append(asyncio.create_task(self.links.run()))
        if self.keys is not None:
            self._tasks.append(asyncio.create_task(self.keys.follow()))
        self._tick()

    def call(self, peer: str, address: Address) -> None:
        self._tasks.append(asyncio.create_task(self.links.keep_calling(Call(peer, (address,)), address)))

    async def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for server in self._servers:
            server.close()
        await self.links.close()
        if self._timer is not None:
            self._timer.cancel()

    def send(self, domain: str, body: bytes) -> None:
        """A message for another domain; bodies mean nothing here."""
        flow = self.engine.route_reply(domain)
        assert flow is not None
        flow.take(body)
        self._carry_out(self.engine.flush(monotonic()))

    def refused(self, reason: str) -> int:
        return sum(times for each, times in self.links.refusals.counts.items() if reason in each)

    def _carry_out(self, instructions: list[Instruction]) -> None:
        for instruction in instructions:
            match instruction:
                case ServeLink(peer):
                    self.links[peer].serve(monotonic())
                case SendFrame(peer, frame):
                    self.links[peer].send(frame)
                case CloseLink(peer, reason):
                    self.links.drop(peer, reason)
                case DeliverMessages(frame):
                    self.delivered.append(frame.body)
                case _:
                    pass

    def _tick(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        now = monotonic()
        self._carry_out(self.engine.handle_timer(now))
        due = max(min(self.engine.timer(), now + 0.2), now + 0.002)
        self._timer = asyncio.get_running_loop().call_at(due, self._tick)


@asynccontextmanager
async def linked(
    shape: Federation, keys: Mapping[str, KeysInForce | None] | None = None
) -> AsyncIterator[dict[str, LinkedGateway]]:
    """All gateways of a federation, linked as its file says."""
    with PortReservation() as ports:
        gateways = {
            name: LinkedGateway(shape, name, ports.take(HOST), None if keys is None else keys[name])
            for name in shape.domains
        }
        try:
            for gateway in gateways.values():
                await gateway.start()
            for link in shape.links:
                gateways[link.caller].call(link.callee, gateways[link.callee].address)
            yield gateways
        finally:
            for gateway in gateways.values():
                await gateway.stop()


async def all_up(gateways: dict[str, LinkedGateway]) -> None:
    async def up() -> bool:
        return all(each.engine.usable(link.peer) for each in gateways.values() for link in each.links)

    await eventually(up, "all links should be up")
