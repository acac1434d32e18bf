"""A RabbitMQ's pulse: a small page of its Prometheus listener, asked for again and again by one connection.

An AMQP connection would need a login, and one that ends before it has one is an error in the broker's log.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import cast

from mangrove.broker.heartbeat import Refused
from mangrove.model.endpoints import BrokerEndpoints

log = logging.getLogger(__name__)

CONNECT_S = 1.0
_QUESTION = b"HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n"
_ANSWER = b"HTTP/1.1 "


class RabbitHeartbeat(asyncio.Protocol):
    """Made with the loop running; connects at the first beat."""

    def __init__(self, broker: BrokerEndpoints, refused: Refused) -> None:
        self._name = broker.name
        self._host, self._port = broker.monitor_host or broker.host, broker.monitor_port or 0
        self._refused = refused
        self._transport: asyncio.Transport | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._closing = False
        self._asked = 0
        self._heard = 0
        self._open: list[int] = []
        self.silenced = "it has not been there yet"
        if broker.external or not self._port:
            self._closing = True
            self.silenced = "it is run by somebody else"

    def beat(self) -> int:
        """See `Heartbeat`."""
        self._asked += 1
        if self._transport is None:
            self._connect()
        elif len(self._open) < 100:
            self._open.append(self._asked)
            self._transport.write(_QUESTION)
        return self._asked

    def answered(self, beat: int) -> bool:
        """See `Heartbeat`."""
        return self._heard >= beat

    async def close(self) -> None:
        """See `Heartbeat`."""
        self._closing = True
        if self._connecting is not None:
            self._connecting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._connecting
        if self._transport is not None:
            self._transport.abort()

    def _connect(self) -> None:
        if self._connecting is None and not self._closing:
            loop = asyncio.get_running_loop()
            self._connecting = loop.create_task(self._reach(), name=f"heartbeat of {self._name}")

    async def _reach(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_S):
                await loop.create_connection(lambda: self, self._host, self._port)
        except ConnectionRefusedError:
            if not self.silenced:
                self._refused()
        except (OSError, TimeoutError) as error:
            log.debug("heartbeat of %s: %s", self._name, error or type(error).__name__)
        finally:
            self._connecting = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are not of asyncio's class
        self._open = [self._asked]
        self._transport.write(_QUESTION)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        for _ in range(data.count(_ANSWER)):
            if self._open:
                self.silenced = ""
                self._heard = self._open.pop(0)

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`: it is made again at once, and whether that is refused tells why."""
        self._transport, self._open = None, []
        self._connect()
