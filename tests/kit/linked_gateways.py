"""Gateways without brokers, in the test's own process: real engines and real links, over loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from time import monotonic

from tests.kit.waiting import eventually

from mangrove.gateway.links.links import Links
from mangrove.gateway.trust.keys_in_force import KeysInForce
from mangrove.host.audit.audit_log import AuditLog
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
        self.audit = AuditLog()
        self.links = Links(
            self.engine,
            tuple(link.other(domain) for link in shape.links_of(domain)),
            carry_out=self._carry_out,
            attached=self._tick,
            keys=keys,
            audit=self.audit,
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


class Relay:
    """Hands on connections to a gateway; what that says comes later on each than on the one before."""

    def __init__(self, target: Address, slower_s: float) -> None:
        self._target = target
        self._slower_s = slower_s
        self._connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        delay_s = self._slower_s * self._connections
        self._connections += 1
        try:
            there, back = await asyncio.open_connection(*self._target)
            await asyncio.gather(_hand_on(reader, back, 0.0), _hand_on(there, writer, delay_s))
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.close()


async def _hand_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay_s: float) -> None:
    loop = asyncio.get_running_loop()
    while data := await reader.read(1 << 16):
        loop.call_later(delay_s, writer.write, data)
    loop.call_later(delay_s, writer.close)


@asynccontextmanager
async def linked(
    shape: Federation, keys: Mapping[str, KeysInForce | None] | None = None, slower_s: float = 0.0
) -> AsyncIterator[dict[str, LinkedGateway]]:
    """All gateways of a federation, linked as its file says.

    If a connection shall be `slower_s` for who called than the one before it, calls go through a relay.
    """
    with PortReservation() as ports:
        gateways = {
            name: LinkedGateway(shape, name, ports.take(HOST), None if keys is None else keys[name])
            for name in shape.domains
        }
        relays: list[asyncio.Server] = []
        try:
            for gateway in gateways.values():
                await gateway.start()
            for link in shape.links:
                address = gateways[link.callee].address
                if slower_s:
                    relay = Relay(address, slower_s)
                    relays.append(await asyncio.start_server(relay.serve, HOST, port := ports.take(HOST)))
                    address = Address(HOST, port)
                gateways[link.caller].call(link.callee, address)
            yield gateways
        finally:
            for server in relays:
                server.close()
            for gateway in gateways.values():
                await gateway.stop()


async def all_up(gateways: dict[str, LinkedGateway]) -> None:
    async def up() -> bool:
        return all(each.engine.usable(link.peer) for each in gateways.values() for link in each.links)

    await eventually(up, "all links should be up")
