"""A client's one connection to its domain's management broker: for the gateway's answers and the agent's."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from mangrove.broker.client_connection import (
    BrokerAwayError,
    NoResponderError,
    NotAllowedError,
    RawMessage,
)
from mangrove.broker.client_kinds import client_connection
from mangrove.host.keys.login import LoginSource
from mangrove.model.broker_kinds import BrokerKind

log = logging.getLogger(__name__)

Answer = TypeVar("Answer", bound=msgspec.Struct)

CONNECT_S = 5.0
RETRY_S = 1.0
PING_S, PINGS = 1.0, 2


class ManagementLink:
    """Connects when it is first used, and for ever again; a management broker that is away hinders nobody."""

    def __init__(self, domain: str, urls: Sequence[str], name: str, login: LoginSource | None = None) -> None:
        """The management brokers of a domain are tried in turn."""
        self.domain = domain
        self.login = login
        self.user = "" if login is None else login().known_as
        """Under whose name is spoken there; empty where nobody logs in."""
        self._on_connect: Callable[[], None] | None = None
        self._greeters: list[Callable[[], None]] = []
        self.on_lost: Callable[[], None] | None = None
        """Called each time the management broker is gone."""
        self._wire = client_connection(BrokerKind.NATS, list(urls), name, self, login=login)
        self._connecting: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._choice = len(urls) > 1
        self._there = asyncio.Event()

    @property
    def connected(self) -> bool:
        """Whether the management broker is there."""
        return self._wire.connected

    def open(self, on_connect: Callable[[], None] | None = None) -> None:
        """Begin to connect, if that has not begun; `on_connect` is called each time it has come about."""
        if on_connect is not None:
            self._on_connect = on_connect
            if self.connected:
                on_connect()
        if self._connecting is None:
            run = asyncio.get_running_loop().create_task
            self._connecting = run(self._connect(), name="management link")
            if self._choice:
                self._watching = run(self._watch(), name="watch the management broker")

    def greet(self, connected: Callable[[], None]) -> None:
        """Call this, too, each time the connection has come about; at once if it is there."""
        self._greeters.append(connected)
        if self.connected:
            connected()

    async def _connect(self) -> None:
        while True:
            try:
                await self._wire.connect(CONNECT_S)
            except BrokerAwayError as error:
                log.debug("%s", error.message)
                await asyncio.sleep(RETRY_S)
            else:
                self.back("")
                return

    async def _watch(self) -> None:
        """Leave a management broker that is frozen or cut off for another."""
        misses = 0
        while True:
            await asyncio.sleep(PING_S)
            try:
                if self._wire.connected:
                    await self._wire.flush(PING_S)
                misses = 0
            except (BrokerAwayError, TimeoutError):
                misses += 1
            if misses >= PINGS:
                misses = 0
                self._wire.abandon("the management broker does not answer")

    def lost(self, url: str, reason: str) -> None:
        """The management broker is gone; the connection comes back by itself."""
        self._there.clear()
        if self.on_lost is not None:
            self.on_lost()

    def back(self, url: str) -> None:
        """It is there."""
        self._there.set()
        if self._on_connect is not None:
            self._on_connect()
        for connected in self._greeters:
            connected()

    async def wait(self, timeout_s: float) -> bool:
        """Wait a moment for the management broker; whether it is there."""
        self.open()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._there.wait()
        return self.connected

    async def ask(
        self, subject: str, question: msgspec.Struct, answer: type[Answer], timeout_s: float
    ) -> Answer:
        """An answer; BrokerAwayError, NoResponderError, TimeoutError or msgspec.DecodeError without one."""
        self.open()
        async with asyncio.timeout(timeout_s):
            await self._there.wait()
            payload = msgspec.json.encode(question)
            try:
                reply: RawMessage = await self._wire.request(subject, payload, timeout_s=timeout_s)
            except NotAllowedError as error:
                log.warning("the management broker of %s: %s", self.domain, error.message)
                raise NoResponderError(error.message) from None
        return msgspec.json.decode(reply.data, type=answer)

    def say(self, subject: str, message: msgspec.Struct) -> bool:
        """Publish, if the broker is there; whether it is."""
        if not self.connected:
            return False
        try:
            self._wire.publish(subject, msgspec.json.encode(message))
        except BrokerAwayError:
            return False
        return True

    def listen(self, subject: str, heard: Callable[[bytes], None]) -> None:
        """Hear what is said on a subject, for as long as the link lives."""

        def sink(messages: list[Any], size_bytes: int) -> None:
            for message in messages:
                heard(message.data)

        self._wire.subscribe(subject, sink)

    async def close(self) -> None:
        """Say what waits to be said, and let go."""
        tasks = [task for task in (self._connecting, self._watching) if task is not None]
        self._connecting = self._watching = None
        for task in tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self._wire.close()
