"""Brokers that somebody else runs: their monitoring page is read, or only their port is tried."""

from __future__ import annotations

import time
from collections.abc import Collection
from datetime import datetime
from typing import TypeVar

import msgspec

from mangrove.broker.nats.monitoring import PageTooLargeError, fetch, port_answers
from mangrove.broker.nats.watching.connections_page import MAX_CONNECTIONS, PAGE_CONNECTIONS, ConnectionsPage
from mangrove.broker.nats.watching.sample_clock import SampleClock
from mangrove.broker.system import BrokerAwayError, Connections
from mangrove.model.agents.load import BrokerSample
from mangrove.model.agents.plain_clients import PlainClient
from mangrove.model.endpoints import BrokerEndpoints
from mangrove.model.questions.vouching import AttachedPlace
from mangrove.model.unreadable import UNREADABLE

TIMEOUT_S = 1.0

T = TypeVar("T")


class _Varz(msgspec.Struct, frozen=True, kw_only=True):
    start: str
    now: datetime | None = None
    connections: int = 0
    subscriptions: int = 0
    in_msgs: int = 0
    out_msgs: int = 0
    in_bytes: int = 0
    out_bytes: int = 0
    slow_consumers: int = 0
    mem: int = 0
    cpu: float = 0.0


class ForeignBroker:
    """A broker in whose system account we are nobody. Without a monitoring page, its counters read zero."""

    def __init__(self, broker: BrokerEndpoints) -> None:
        self._broker = broker
        self._clock = SampleClock()

    async def sample(self, *, pending: bool = False, delay: bool = False) -> BrokerSample:
        """What the page tells; neither pending bytes nor delays can be had."""
        name = self._broker.name
        if self._broker.monitor_url is None:
            if not await port_answers(self._broker.host, self._broker.client_port, TIMEOUT_S):
                raise BrokerAwayError(f"{name} does not answer")
            return BrokerSample(
                broker=name, started="", messages_in=0, messages_out=0, bytes_in=0, bytes_out=0
            )
        asked = time.monotonic()
        found = await self._page("varz", _Varz)
        return BrokerSample(
            broker=name,
            started=found.start,
            messages_in=found.in_msgs,
            messages_out=found.out_msgs,
            bytes_in=found.in_bytes,
            bytes_out=found.out_bytes,
            connections=found.connections,
            subscriptions=found.subscriptions,
            cpu_percent=found.cpu,
            memory_bytes=found.mem,
            slow_consumers=found.slow_consumers,
            taken_at=self._clock.taken_at(asked, time.monotonic(), found.now),
        )

    async def connections(self) -> Connections:
        """Who is connected, if the page is known."""
        clients: list[PlainClient] = []
        seen, total = 0, 1 if self._broker.monitor_url is not None else 0
        while seen < min(total, MAX_CONNECTIONS):
            question = f"connz?subs=detail&sort=pending&limit={PAGE_CONNECTIONS}&offset={seen}"
            page = await self._page(question, ConnectionsPage)
            clients += page.plain_clients()
            seen += len(page.connections)
            total = page.total if page.connections else seen
        return Connections(tuple(clients), left_out=max(total - seen, 0))

    async def kick(self, cid: int) -> None:
        """Not ours to do."""
        raise BrokerAwayError(f"{self._broker.name} is somebody else's: connection {cid} stays")

    async def attached(self) -> bool:
        """That is not ours to know."""
        raise BrokerAwayError(f"{self._broker.name} is run by somebody else")

    async def detach(self, other: str) -> bool:
        """Nobody of ours decides that."""
        raise BrokerAwayError(f"{self._broker.name} is run by somebody else: it stays attached to {other}")

    async def expel(self, keys: Collection[str], vouched: Collection[AttachedPlace] = ()) -> int:
        """Not ours to do."""
        raise BrokerAwayError(f"{self._broker.name} is run by somebody else, with {len(keys)} keys or others")

    async def close(self) -> None:
        """Nothing is kept open."""

    async def _page(self, question: str, kind: type[T]) -> T:
        try:
            page = await fetch(f"{self._broker.monitor_url}/{question}", timeout_s=TIMEOUT_S)
            if page is None:
                raise BrokerAwayError(f"the monitoring page of {self._broker.name} does not answer")
            return msgspec.json.decode(page, type=kind)
        except (PageTooLargeError, *UNREADABLE) as error:
            raise BrokerAwayError(f"{self._broker.name} tells what cannot be read: {error}") from None
