"""Finds the brokers of a domain and connects to them."""

from __future__ import annotations

import random
from collections.abc import Coroutine, Generator, Sequence
from pathlib import Path
from types import TracebackType

from mangrove.broker.client_connection import BrokerAwayError, ClientConnection
from mangrove.broker.client_kinds import client_connection
from mangrove.client.connection import Connection, NotConnectedError
from mangrove.client.gateway_questions import GatewayQuestions
from mangrove.errors import InputError
from mangrove.host.runtime_file import find_running
from mangrove.model.broker_kinds import BrokerKind
from mangrove.model.endpoints import DomainEndpoints

CONNECT_TIMEOUT_S = 5.0


class Connecting:
    """A connection that is being made: `await` it, or use it in `async with`."""

    def __init__(self, opening: Coroutine[None, None, Connection]) -> None:
        self._opening = opening
        self._connection: Connection | None = None

    def __await__(self) -> Generator[None, None, Connection]:
        return self._opening.__await__()

    async def __aenter__(self) -> Connection:
        self._connection = await self._opening
        return self._connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._connection is not None:
            await self._connection.close()


def connect(
    servers: str | Sequence[str] | None = None,
    *,
    edges: Sequence[str] = (),
    domain: str | None = None,
    federation: str | None = None,
    run_dir: Path | None = None,
    name: str = "mangrove-sdk",
) -> Connecting:
    """Connect to a domain: `async with mangrove.connect(domain="seattle") as connection:`.

    Either give URLs: `servers` for publishing and, if subscriptions should go elsewhere, `edges`. Or name a
    `domain` of a federation that runs on this machine.
    """
    return Connecting(_connect(servers, edges, domain, federation, run_dir, name))


async def _connect(
    servers: str | Sequence[str] | None,
    edges: Sequence[str],
    domain: str | None,
    federation: str | None,
    run_dir: Path | None,
    name: str,
) -> Connection:
    questions: GatewayQuestions | None = None
    kind = BrokerKind.NATS
    if servers is None:
        endpoints = _endpoints_of(domain, federation, run_dir)
        questions = GatewayQuestions(endpoints.domain, endpoints.management.client_url)
        servers = [endpoints.head.client_url]
        kind = endpoints.head.kind
        edges = edges or [edge.client_url for edge in endpoints.edges]
    elif domain is not None:
        raise InputError("give either servers or a domain, not both")
    head_urls = [servers] if isinstance(servers, str) else list(servers)
    publisher = await _open(kind, head_urls, name)
    if not edges:
        return Connection(publisher, publisher, questions)
    try:
        # Subscribers spread over the edges; after a failure any edge, and at last the head, will do.
        order = random.sample(list(edges), len(edges))
        subscriber = await _open(kind, [*order, *head_urls], name)
    except BaseException:
        await publisher.close()
        raise
    return Connection(publisher, subscriber, questions)


def _endpoints_of(domain: str | None, federation: str | None, run_dir: Path | None) -> DomainEndpoints:
    runtime = find_running(federation, run_dir)
    if domain is None:
        domain = next(iter(runtime.domains))
    endpoints = runtime.domains.get(domain)
    if endpoints is None:
        raise InputError(
            f"the federation {runtime.federation.name!r} has no domain {domain!r}",
            hint=f"choose one of: {', '.join(runtime.domains)}",
        )
    return endpoints


async def _open(kind: BrokerKind, urls: list[str], name: str) -> ClientConnection:
    wire = client_connection(kind, urls, name)
    try:
        # Once connected, it comes back for ever; so it would also try for ever to connect at all.
        await wire.connect(CONNECT_TIMEOUT_S)
    except BrokerAwayError as error:
        raise NotConnectedError(
            error.message, hint="is the federation running? mangrove status tells"
        ) from None
    return wire
