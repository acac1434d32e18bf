"""A nats-server's pulse: PING and PONG on a connection that is kept for nothing else.

Costs a line in each direction and no request; a server answers it from the read loop of the connection, so a
server that is merely busy answers, too. When the connection breaks it is made again at once: whether that is
refused tells a process that has ended from one that has sent us away.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import cast

import msgspec

from mangrove.broker.heartbeat import Refused
from mangrove.broker.nats.client.greeting import parse_address, parse_info
from mangrove.errors import MangroveError
from mangrove.host.keys.login import BrokerLogin, LoginSource
from mangrove.model.endpoints import BrokerEndpoints
from mangrove.model.shared_names import PROBE_NAME

log = logging.getLogger(__name__)

CONNECT_S = 1.0
BEATS_WHEN_SENT_AWAY = 25
"""A broker that does not let us in is tried again only after so many beats."""
MAX_LINE_BYTES = 64 << 10
"""INFO is the longest line that a server sends to somebody who has no subscription."""


class NatsHeartbeat(asyncio.Protocol):
    """Made with the loop running; connects at the first beat."""

    def __init__(self, broker: BrokerEndpoints, login: LoginSource | None, refused: Refused) -> None:
        self._name = broker.name
        self._address = parse_address(broker.itself.client_url)
        self._login = login
        self._refused = refused
        self._transport: asyncio.Transport | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._encrypting: asyncio.Task[None] | None = None
        self._closing = False
        self._line = b""
        self._greeted = False
        self._asked = 0
        self._heard = 0
        self._open: list[int] = []
        """Questions that were asked on this connection and are not answered yet."""
        self.silenced = ""

    # -- questions ------------------------------------------------------------------------------------------

    def beat(self) -> int:
        """See `Heartbeat`."""
        self._asked += 1
        if self._transport is None:
            if not self.silenced or self._asked % BEATS_WHEN_SENT_AWAY == 0:
                self._connect()
        elif self._greeted:
            self._open.append(self._asked)
            self._transport.write(b"PING\r\n")
        return self._asked

    def answered(self, beat: int) -> bool:
        """See `Heartbeat`."""
        return self._heard >= beat

    async def close(self) -> None:
        """See `Heartbeat`."""
        self._closing = True
        for task in (self._connecting, self._encrypting):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        self._drop()

    # -- the connection -------------------------------------------------------------------------------------

    def _connect(self) -> None:
        if self._connecting is None and not self._closing:
            loop = asyncio.get_running_loop()
            self._connecting = loop.create_task(self._reach(), name=f"heartbeat of {self._name}")

    async def _reach(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_S):
                await loop.create_connection(
                    lambda: self,
                    self._address.host,
                    self._address.port,
                    ssl=self._address.tls or None,
                )
        except ConnectionRefusedError:
            self._refused()
        except (OSError, TimeoutError) as error:
            log.debug("heartbeat of %s: %s", self._name, error or type(error).__name__)
        finally:
            self._connecting = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        self._transport = cast(
            "asyncio.Transport", transport
        )  # uvloop's transports are not of asyncio's class
        self._line, self._greeted, self._open = b"", False, []

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        *lines, self._line = (self._line + data).split(b"\r\n")
        for line in lines:
            self._take(line)
        if len(self._line) > MAX_LINE_BYTES:
            self._drop()

    def _take(self, line: bytes) -> None:
        if line == b"PONG":
            self.silenced = ""
            if self._open:
                self._heard = self._open.pop(0)
        elif self._transport is None:
            return
        elif line == b"PING":
            self._transport.write(b"PONG\r\n")
        elif line.startswith(b"INFO ") and not self._greeted and self._encrypting is None:
            self._answer(self._transport, line.partition(b" ")[2])
        elif line.startswith(b"-ERR 'Auth"):
            if not self.silenced:
                log.warning("%s does not let us probe it: %s", self._name, line.decode(errors="replace"))
            self.silenced = "it does not let us in"

    def _answer(self, transport: asyncio.Transport, text: bytes) -> None:
        """Answer the greeting, after the connection has been encrypted where it has to be."""
        try:
            login = None if self._login is None else self._login()
            info = parse_info(text)
        except MangroveError as error:
            self._turned_away(error.message)
            return
        if login is None or login.tls is None:
            self._greet(transport, login, info.nonce)
        elif not (info.tls_required or info.tls_available):
            self._turned_away("it offers no TLS")
        else:
            encrypting = self._encrypt(transport, login, info.nonce)
            self._encrypting = asyncio.get_running_loop().create_task(encrypting, name=f"tls {self._name}")

    async def _encrypt(self, transport: asyncio.Transport, login: BrokerLogin, nonce: str) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_S):
                assert login.tls is not None, "otherwise there is nothing to encrypt with"
                stream = await loop.start_tls(transport, self, login.tls, server_hostname=self._address.host)
        except (OSError, TimeoutError) as error:
            log.debug("heartbeat of %s: %s", self._name, error or type(error).__name__)
            transport.abort()
            if self._transport is transport:
                self._transport = None
        else:
            if stream is not None and self._transport is transport:
                self._transport = stream
                self._greet(stream, login, nonce)
        finally:
            self._encrypting = None

    def _turned_away(self, why: str) -> None:
        if not self.silenced:
            log.warning("%s is not probed: %s", self._name, why)
        self.silenced = "we do not get in"
        self._drop()

    def _greet(self, transport: asyncio.Transport, login: BrokerLogin | None, nonce: str) -> None:
        """Introduce ourselves, and have the last question answered that nobody could be asked."""
        options = {"verbose": False, "pedantic": False, "lang": "python-mangrove", "name": PROBE_NAME}
        shown = dict(self._address.credentials) if login is None else login.shown(nonce)
        transport.write(b"CONNECT " + msgspec.json.encode(options | shown) + b"\r\nPING\r\n")
        self._greeted = True
        self._open = [self._asked]

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._transport, self._greeted, self._open = None, False, []
        if not self.silenced:
            self._connect()

    def _drop(self) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
