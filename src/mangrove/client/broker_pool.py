"""A client's connections to the brokers of its domain: one for each broker in use, made when it is needed."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol
from urllib.parse import urlsplit

from mangrove.broker.client_connection import (
    BrokerAwayError,
    ClientConnection,
    ClientConnectionOwner,
    Denial,
    LoginRefusedError,
    OnDenied,
    Subscribed,
)
from mangrove.broker.client_kinds import client_connection
from mangrove.host.keys.login import LoginSource, at_home_in
from mangrove.model.agents.directions import BrokerDirection, Directions
from mangrove.model.broker_kinds import BrokerKind
from mangrove.model.subjects import MOVE_PREFIX

log = logging.getLogger(__name__)

CONNECT_S = 5.0
MEASURE_S = 1.0
APART_S = 1.0
ASKED_S = 5.0
"""Who asked for a connection uses it within this time."""


class WireListener(Protocol):
    """Who wants to know what becomes of connections."""

    def wire_lost(self, wire: ClientConnection) -> None:
        """A connection has lost its broker, and looks for another."""

    def wire_back(self, wire: ClientConnection) -> None:
        """It has found one, which may be another than before."""


class _Watch:
    """Tells the pool's listener which connection it is that something happened to."""

    def __init__(self, pool: BrokerPool) -> None:
        self._pool = pool
        self.wire: ClientConnection | None = None

    def lost(self, url: str, reason: str) -> None:
        """See `ClientConnectionOwner`."""
        for listener in (self._pool.listener, self._pool.keeper):
            if listener is not None and self.wire is not None:
                listener.wire_lost(self.wire)

    def back(self, url: str) -> None:
        """See `ClientConnectionOwner`."""
        for listener in (self._pool.listener, self._pool.keeper):
            if listener is not None and self.wire is not None:
                listener.wire_back(self.wire)


class BrokerPool:
    """Connections by broker. Each comes back by itself, to its own broker or to any other of the domain."""

    def __init__(
        self,
        kind: BrokerKind,
        name: str,
        head_urls: Iterable[str],
        edge_urls: Iterable[str],
        login: LoginSource | None = None,
    ) -> None:
        """With a `login`, that is shown to every broker."""
        self._kind = kind
        self._login = login
        self._name = name
        self.head_urls = list(head_urls)
        self.edge_urls = list(edge_urls)
        self.listener: WireListener | None = None
        self.keeper: WireListener | None = None
        """Who keeps what is published while brokers are away; told after the listener, who has mirrors."""
        self.when_denied: OnDenied | None = None
        """Told what any of the brokers does not allow."""
        self._wires: list[ClientConnection] = []
        self._opening: dict[str, asyncio.Task[ClientConnection]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._asked_for: dict[ClientConnection, float] = {}
        """When a connection was last asked for; who asked may not have come to use it yet."""

    def at_home_in(self, domain: str) -> None:
        """The domain whose client this is: connections that are made from now on may lead to others."""
        if self._login is not None:
            self._login = at_home_in(self._login, domain)

    def _connection(self, urls: list[str], owner: ClientConnectionOwner | None) -> ClientConnection:
        wire = client_connection(
            self._kind, urls, self._name, owner, login=self._login, marker_prefix=MOVE_PREFIX
        )
        wire.when_denied(self._denied)
        return wire

    def _denied(self, denial: Denial, subscribed: Subscribed | None) -> None:
        if self.when_denied is not None:
            self.when_denied(denial, subscribed)

    async def open(self, urls: list[str], *, patient_s: float | None = None) -> ClientConnection:
        """A new connection to the first of several brokers that takes it; BrokerAwayError if none does.

        With `patient_s`, after that time it is given without a broker, and goes on looking for one.
        """
        watch = _Watch(self)
        wire = watch.wire = self._connection(urls, watch)
        try:
            await wire.connect(CONNECT_S if patient_s is None else patient_s)
        except BaseException as error:
            patient = patient_s is not None and isinstance(error, BrokerAwayError)
            if not patient or isinstance(error, LoginRefusedError):
                await wire.close()
                raise
            wire.begin()
        self._wires.append(wire)
        return wire

    async def at(self, url: str) -> ClientConnection:
        """A connection to this broker; BrokerAwayError if it does not take it."""
        for wire in self._wires:
            if wire.connected and same_broker(wire.url, url):
                self._asked_for[wire] = asyncio.get_running_loop().time()
                return wire
        task = self._opening.get(url)
        if task is None:
            task = self._opening[url] = asyncio.get_running_loop().create_task(self._open_at(url))
            task.add_done_callback(lambda _: self._opening.pop(url, None))
        return await asyncio.shield(task)

    async def _open_at(self, url: str) -> ClientConnection:
        others = [each for each in self.edge_urls if not same_broker(each, url)]
        random.shuffle(others)
        # After a failure any edge, and at last the head, will do.
        wire = await self.open([url, *others, *self.head_urls])
        if not same_broker(wire.url, url):
            self.let_go(wire)
            raise BrokerAwayError(f"{url} does not answer")
        self._asked_for[wire] = asyncio.get_running_loop().time()
        return wire

    async def apart(self, url: str, owner: ClientConnectionOwner) -> ClientConnection:
        """A connection to this broker alone, which the caller closes; BrokerAwayError if it is away."""
        wire = self._connection([url], owner)
        try:
            await wire.connect(APART_S)
        except BaseException:
            await wire.close()
            raise
        return wire

    async def measure(self, url: str) -> float | None:
        """The round trip to a broker, in milliseconds; None if it does not answer."""
        wire = self._connection([url], None)
        try:
            await wire.connect(MEASURE_S)
            return await round_trip_ms(wire)
        except (BrokerAwayError, TimeoutError):
            return None
        finally:
            await wire.close()

    def tidy(self, used: Callable[[ClientConnection], bool]) -> bool:
        """Close what is not used and was not asked for of late; whether something is left for later."""
        late = asyncio.get_running_loop().time() - ASKED_S
        idle = [wire for wire in self._wires if not used(wire)]
        for wire in idle:
            if self._asked_for.get(wire, late) <= late:
                self.let_go(wire)
        return any(wire in self._wires for wire in idle)

    def let_go(self, wire: ClientConnection) -> None:
        """Close a connection that nobody uses any more."""
        if wire in self._wires:
            self._wires.remove(wire)
            self._asked_for.pop(wire, None)
            task = asyncio.get_running_loop().create_task(wire.close(), name="let go of a broker")
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def __iter__(self) -> Iterator[ClientConnection]:
        return iter(list(self._wires))

    async def close(self) -> None:
        """Close all connections."""
        for task in list(self._opening.values()):
            task.cancel()
        wires, self._wires = self._wires, []
        await asyncio.gather(*self._closing, *(wire.close() for wire in wires), return_exceptions=True)


async def round_trip_ms(wire: ClientConnection) -> float:
    """The shortest of three round trips; BrokerAwayError or TimeoutError if the broker does not answer."""
    loop = asyncio.get_running_loop()
    trips = []
    for _ in range(3):
        begun = loop.time()
        await wire.flush(MEASURE_S)
        trips.append(loop.time() - begun)
    return min(trips) * 1e3


def same_broker(first: str, second: str) -> bool:
    """Whether two URLs lead to the same host and port."""
    return _place(first) == _place(second)


def _place(url: str) -> tuple[str, int]:
    """Host and port; what has none is a place by itself."""
    try:
        parts = urlsplit(url if "://" in url else f"nats://{url}")
        return parts.hostname or "", parts.port or 4222
    except ValueError:
        return url, -1


def brokers_of(directions: Directions) -> list[BrokerDirection]:
    """Head and edges."""
    return [directions.head, *directions.edges]
