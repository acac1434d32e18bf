"""nats-server's system account: counters, connections, and the power to end one.

Figures of `$SYS.REQ.SERVER.PING.STATSZ` are those of the server that is asked: a leaf node shares its data
account with its head, not the system account.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from datetime import datetime

import msgspec
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from mangrove.broker.nats.watching.connections_page import MAX_CONNECTIONS, PAGE_CONNECTIONS, ConnectionsPage
from mangrove.broker.nats.watching.sample_clock import SampleClock
from mangrove.broker.system import BrokerAwayError, Connections
from mangrove.host.keys.login import LoginSource
from mangrove.host.nats_connecting import close_in_time, connect_or_close
from mangrove.model.agents.load import BrokerSample
from mangrove.model.agents.names import AGENT_USER
from mangrove.model.agents.plain_clients import PlainClient
from mangrove.model.endpoints import BrokerEndpoints
from mangrove.model.questions.vouching import AttachedPlace
from mangrove.model.unreadable import UNREADABLE

TIMEOUT_S = 1.0
PENDING_LOOKED_AT = 128
"""Connections, those with the most waiting first, whose pending bytes are summed up."""
STATISTICS = "$SYS.REQ.SERVER.PING.STATSZ"


class _Flow(msgspec.Struct, frozen=True):
    msgs: int = 0
    bytes: int = 0


class _Statistics(msgspec.Struct, frozen=True, kw_only=True):
    start: str
    mem: int = 0
    cpu: float = 0.0
    connections: int = 0
    subscriptions: int = 0
    sent: _Flow = _Flow()
    received: _Flow = _Flow()
    slow_consumers: int = 0


class _Server(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    time: datetime | None = None


class _StatisticsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    server: _Server
    statsz: _Statistics


class _ServerError(msgspec.Struct, frozen=True, kw_only=True):
    description: str = ""


class _ConnectionsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    data: ConnectionsPage | None = None
    error: _ServerError | None = None


class _KickAnswer(msgspec.Struct, frozen=True, kw_only=True):
    error: _ServerError | None = None


class _LeafNode(msgspec.Struct, frozen=True, kw_only=True):
    id: int
    name: str = ""
    is_spoke: bool = False


class _LeafNodes(msgspec.Struct, frozen=True, kw_only=True):
    leafs: tuple[_LeafNode, ...] = ()


class _LeafNodesAnswer(msgspec.Struct, frozen=True, kw_only=True):
    data: _LeafNodes = _LeafNodes()


_leaf_nodes = msgspec.json.Decoder(_LeafNodesAnswer)
_statistics = msgspec.json.Decoder(_StatisticsAnswer)
_connections = msgspec.json.Decoder(_ConnectionsAnswer)
_kicked = msgspec.json.Decoder(_KickAnswer)


async def _quiet(_: Exception) -> None:
    """A broker that is away is an answer here, not an error."""


class NatsSystem:
    """One connection to a nats-server of ours, made at the first question and again after it broke."""

    def __init__(self, broker: BrokerEndpoints, login: LoginSource) -> None:
        self._broker = broker
        self._login = login
        self._connection: Client | None = None
        self._connecting = asyncio.Lock()
        self._clock = SampleClock()
        self._server_id = ""
        self._marker = ""
        self._heard: asyncio.Future[None] | None = None

    async def sample(self, *, pending: bool = False, delay: bool = False) -> BrokerSample:
        """The broker's counters, by one request of no and an answer of some 700 bytes."""
        asked = time.monotonic()
        try:
            answer = _statistics.decode(await self._ask(STATISTICS, b""))
        except UNREADABLE as error:
            raise BrokerAwayError(f"{self._broker.name} tells what cannot be read: {error}") from None
        taken_at = self._clock.taken_at(asked, time.monotonic(), answer.server.time)
        self._server_id = answer.server.id
        found = answer.statsz
        return BrokerSample(
            broker=self._broker.name,
            started=found.start,
            messages_in=found.received.msgs,
            messages_out=found.sent.msgs,
            bytes_in=found.received.bytes,
            bytes_out=found.sent.bytes,
            connections=found.connections,
            subscriptions=found.subscriptions,
            pending_bytes=await self._pending_bytes() if pending else 0,
            cpu_percent=found.cpu,
            memory_bytes=found.mem,
            slow_consumers=found.slow_consumers,
            processing_ms=await self._delay_ms() if delay else None,
            taken_at=taken_at,
        )

    async def connections(self) -> Connections:
        """All connections in parts, up to a bound."""
        clients: list[PlainClient] = []
        seen, total = 0, 1
        while seen < min(total, MAX_CONNECTIONS):
            page = await self._page(
                {
                    "sort": "pending",
                    "subscriptions": True,
                    "subscriptions_detail": True,
                    "limit": PAGE_CONNECTIONS,
                    "offset": seen,
                }
            )
            clients += page.plain_clients()
            seen += len(page.connections)
            total = page.total if page.connections else seen
        return Connections(tuple(clients), left_out=max(total - seen, 0))

    async def kick(self, cid: int) -> None:
        """Disconnect a client; most connect again at once, to the next server that they know."""
        request = msgspec.json.encode({"cid": cid})
        try:
            answer = _kicked.decode(await self._ask(await self._subject("KICK"), request))
        except UNREADABLE as error:
            raise BrokerAwayError(f"{self._broker.name} tells what cannot be read: {error}") from None
        if answer.error is not None:
            raise BrokerAwayError(f"{self._broker.name} does not disconnect: {answer.error.description}")

    async def attached(self) -> bool:
        """Whether the broker is a leaf node of another."""
        return any(leaf.is_spoke for leaf in await self._leaf_nodes())

    async def detach(self, other: str) -> bool:
        """Have the broker leave another whose leaf node it is, or that is one of its own."""
        joined = [leaf.id for leaf in await self._leaf_nodes() if leaf.name == other]
        for cid in joined:
            await self.kick(cid)
        return bool(joined)

    async def expel(self, keys: Collection[str], vouched: Collection[AttachedPlace] = ()) -> int:
        """Disconnect leaf nodes that came by another key than these; the broker's own remotes have none."""
        sent_away = 0
        await self._subject("LEAFZ")  # asks the broker who it is
        kept = {place.number for place in vouched if place.broker == self._server_id}
        for leaf in await self._leaf_nodes():
            if not leaf.is_spoke:
                page = await self._page({"cid": leaf.id, "auth": True})
                for cid in set(page.attached_by_others(keys)) - kept:
                    await self.kick(cid)
                    sent_away += 1
        return sent_away

    async def close(self) -> None:
        """Let go of the broker."""
        connection, self._connection = self._connection, None
        self._server_id = ""
        if connection is not None:
            await close_in_time(connection)

    async def _leaf_nodes(self) -> tuple[_LeafNode, ...]:
        try:
            return _leaf_nodes.decode(await self._ask(await self._subject("LEAFZ"), b"")).data.leafs
        except UNREADABLE as error:
            raise BrokerAwayError(f"{self._broker.name} tells what cannot be read: {error}") from None

    # -- questions ----------------------------------------------------------------------------------------

    async def _pending_bytes(self) -> int:
        return (await self._page({"sort": "pending", "limit": PENDING_LOOKED_AT})).pending_bytes

    async def _page(self, question: dict[str, object]) -> ConnectionsPage:
        try:
            answer = _connections.decode(
                await self._ask(await self._subject("CONNZ"), msgspec.json.encode(question))
            )
        except UNREADABLE as error:
            raise BrokerAwayError(f"{self._broker.name} tells what cannot be read: {error}") from None
        if answer.data is None:
            reason = answer.error.description if answer.error is not None else "no reason given"
            raise BrokerAwayError(f"{self._broker.name} does not tell its connections: {reason}")
        return answer.data

    async def _delay_ms(self) -> float | None:
        """How long a message takes through the broker and back; None if it takes longer than a time-out."""
        connection = await self._connected()
        if not self._marker:
            self._marker = connection.new_inbox()
            await connection.subscribe(self._marker, cb=self._hear)
        self._heard = asyncio.get_running_loop().create_future()
        sent = time.perf_counter()
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await connection.publish(self._marker, b"")
                await self._heard
        except TimeoutError:
            return 1000 * TIMEOUT_S
        except (OSError, nats.errors.Error):
            return None
        return 1000 * (time.perf_counter() - sent)

    async def _hear(self, _: Msg) -> None:
        if self._heard is not None and not self._heard.done():
            self._heard.set_result(None)

    async def _subject(self, question: str) -> str:
        if not self._server_id:
            await self.sample()
        return f"$SYS.REQ.SERVER.{self._server_id}.{question}"

    async def _ask(self, subject: str, request: bytes) -> bytes:
        try:
            connection = await self._connected()
            return (await connection.request(subject, request, timeout=TIMEOUT_S)).data
        except (nats.errors.Error, OSError, TimeoutError) as error:
            self._server_id = ""  # another process may listen there by now
            raise BrokerAwayError(f"{self._broker.name}: {str(error) or type(error).__name__}") from None

    async def _connected(self) -> Client:
        async with self._connecting:
            if self._connection is None or not self._connection.is_connected:
                await self.close()
                self._marker = ""
                async with asyncio.timeout(TIMEOUT_S):
                    self._connection = await connect_or_close(
                        self._broker.itself.client_url,
                        login=self._login,
                        name=AGENT_USER,
                        allow_reconnect=False,
                        max_reconnect_attempts=1,
                        reconnect_time_wait=0,
                        connect_timeout=1,
                        error_cb=_quiet,
                    )
            return self._connection
