"""Finds the brokers of a domain and connects to them."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import os
import random
from collections.abc import Callable, Coroutine, Generator, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from mangrove.broker.client_connection import (
    BrokerAwayError,
    ClientConnection,
    LoginRefusedError,
    NoResponderError,
    NotAllowedError,
)
from mangrove.client.broker_pool import BrokerPool, same_broker
from mangrove.client.connection import Connection
from mangrove.client.filtering.publish_filter import OnLimit, PublishFilter, checked_callback, chosen_way
from mangrove.client.management.link import ManagementLink
from mangrove.client.offline.settings import Offline, checked
from mangrove.client.offline.state import OnOffline
from mangrove.client.publishing_connection import Keeping, LoginError, NotConnectedError
from mangrove.errors import InputError
from mangrove.host.keys.login import LoginSource
from mangrove.host.keys.logins.external_login import external_login
from mangrove.host.keys.logins.user_login import CREDENTIALS_VARIABLE, client_login, local_login
from mangrove.host.runtime_file import find_running
from mangrove.model.agents.directions import DIRECTIONS_SUBJECT, BrokerDirection, Directions
from mangrove.model.broker_kinds import BROKER_URLS, BrokerKind
from mangrove.model.congestion.rate_limit import Limits
from mangrove.model.congestion.terms import TopicTerms
from mangrove.model.endpoints import DomainEndpoints
from mangrove.model.federation import External
from mangrove.model.names.local_view import local_rules
from mangrove.model.shared_names import SDK_NAME
from mangrove.model.unreadable import UNREADABLE

if TYPE_CHECKING:
    from mangrove.client.management.managed import Managed

log = logging.getLogger(__name__)

DIRECTIONS_S = 0.5
PATIENT_S = 1.0
"""Who keeps what is published waits so long for a broker before it goes on without."""
MEET_S = 60.0
MEETINGS = 120
"""How often the gateway of a domain whose broker is back is asked for directions, with a pause between."""

Filtering = Callable[[Sequence[TopicTerms], Limits | None], PublishFilter]
"""Makes the filter of what is published, once contracts are known."""
Storing = Callable[[Sequence[TopicTerms]], Keeping]
"""Makes who keeps what no broker takes, once contracts are known."""


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
    name: str = "",
    identity: Path | None = None,
    credentials: Path | str | None = None,
    when_limited: str = "drop",
    on_limit: OnLimit | None = None,
    offline: Offline | bool | None = None,
    on_offline: OnOffline | None = None,
) -> Connecting:
    """Connect to a domain: `async with mangrove.connect(domain="seattle") as connection:`.

    Either name a `domain` of a federation that runs on this machine. Or give the URL of any broker of a
    domain, or several, as `servers`: it tells where the others are; if nobody there knows, `servers` are for
    publishing and, if subscriptions should go elsewhere, `edges` for those.

    `name` is for people who look at brokers. `identity` is a file with the key by which the domain's agent
    knows this client; it is made if there is none. Without it each connection makes a key of its own.

    `credentials` is the folder that `mangrove keys issue` made for this client, or its path is in the
    environment as MANGROVE_CREDENTIALS: by it brokers know who connects, and it knows that they are brokers
    of the federation. For a federation that was started on this machine by the same user nothing need be
    given. LoginError if the brokers do not let it in, or are not to be believed.

    `when_limited` is what happens to a message beyond a limit: it is not sent, and `publish` returns
    `Outcome.LIMITED` ("drop"), waits until it may be sent ("wait") or raises LimitedError ("raise").
    `on_limit(subject, limit)` is called in the event loop whenever the limit of a subject changes; the limit
    is None when there is none any more.

    With `offline`, True or an `Offline` with bounds, what is published while no broker can be reached is
    kept, and sent in order when one is back; `Outcome.KEPT` says so, `connection.offline` how much waits.
    Then a broker need not be there yet, either. `on_offline(state)` is called in the event loop when
    messages begin to wait, when the first has no room, and when all have been sent.
    """
    filtering = partial(
        PublishFilter, on_limit=checked_callback(on_limit), when_limited=chosen_way(when_limited)
    )
    folder = credentials or os.environ.get(CREDENTIALS_VARIABLE)
    place = _Place(servers, edges, domain, federation, run_dir, None if not folder else Path(folder))
    return Connecting(_connect(place, name, identity, filtering, _storing(offline, on_offline)))


def _storing(offline: Offline | bool | None, on_offline: OnOffline | None) -> Storing | None:
    if on_offline is not None and (not callable(on_offline) or inspect.iscoroutinefunction(on_offline)):
        raise InputError("on_offline must be a plain function of a state")
    settings = checked(offline)
    if settings is None:
        return None
    from mangrove.client.offline.keeper import Keeper

    return lambda terms: partial(Keeper, settings, terms=terms, on_change=on_offline)


class _Place(NamedTuple):
    """Where to connect, and as whom, as the user said it."""

    servers: str | Sequence[str] | None
    edges: Sequence[str]
    domain: str | None
    federation: str | None
    run_dir: Path | None
    credentials: Path | None


async def _connect(
    place: _Place, name: str, identity: Path | None, filtering: Filtering, storing: Storing | None
) -> Connection:
    name = name if name.startswith(SDK_NAME) else f"{SDK_NAME} {name}".strip()
    servers, edges = place.servers, place.edges
    if servers is None:
        endpoints, directions, external = _found(place)
        password = endpoints.head.kind is not BrokerKind.NATS
        login = _given_login(place, password=password) or local_login(endpoints.keys, password=password)
        urls = edges or [each.url for each in directions.edges]
        at_brokers = external_login(external) if endpoints.head.external else login
        pool = BrokerPool(endpoints.head.kind, name, directions.head_urls, urls, at_brokers)
        return await _open(pool, directions, name, identity, filtering, login, storing)
    if place.domain is not None:
        raise InputError("give either servers or a domain, not both")
    given = [servers] if isinstance(servers, str) else list(servers)
    kind = _kind_of(given)
    login = _given_login(place, password=kind is not BrokerKind.NATS)
    pool = BrokerPool(kind, name, given, edges, login)
    try:
        first = await _first(pool, given, patient=storing is not None)
        there = first.connected
        told = await _ask_directions(first) if there else None
        if told is not None:
            pool.head_urls = list(told.head_urls)
            pool.edge_urls = list(edges) or [each.url for each in told.edges]
            if not same_broker(first.url, told.head.url):
                first = await _head(pool, told, first)
            _go_on(first, told)
        connection = await _open(pool, told, name, identity, filtering, login, storing, first)
        if not there:
            connection.meet(_meet(connection, pool, first, name, identity, login))
        return connection
    except BaseException:
        await pool.close()
        raise


def _given_login(place: _Place, *, password: bool) -> LoginSource | None:
    return None if place.credentials is None else client_login(place.credentials, password=password)


def _kind_of(urls: Sequence[str]) -> BrokerKind:
    """The kind of the brokers that a user names, all of which are of one domain."""
    schemes = {url.partition("://")[0] for url in urls if "://" in url}
    for kind in BrokerKind:
        if kind is not BrokerKind.NATS and schemes & set(BROKER_URLS[kind].client_schemes):
            return kind
    return BrokerKind.NATS


async def _open(
    pool: BrokerPool,
    directions: Directions | None,
    name: str,
    identity: Path | None,
    filtering: Filtering,
    login: LoginSource | None,
    storing: Storing | None,
    publisher: ClientConnection | None = None,
) -> Connection:
    """Connect to a head, if that has not been done, and to an edge."""
    patient = storing is not None
    try:
        terms = () if directions is None else directions.terms
        selects = directions is not None and directions.selectors
        publishing = filtering(terms, None if directions is None else directions.client_limits)
        keeping = None if storing is None else storing(terms)
        if publisher is None:
            publisher = await _first(pool, pool.head_urls, patient=patient)
        subscriber = publisher
        if pool.edge_urls:
            # Subscribers spread over the edges; after a failure any edge, and at last the head, will do.
            order = random.sample(pool.edge_urls, len(pool.edge_urls))
            subscriber = await _first(pool, [*order, *pool.head_urls], patient=patient)
        urls = () if directions is None else directions.management_urls or (directions.management_url,)
        if directions is None or not any(urls):
            return Connection(
                pool,
                publisher,
                subscriber,
                publishing=publishing,
                terms=terms,
                keeping=keeping,
                selects=selects,
            )
        pool.at_home_in(directions.domain)
        link = ManagementLink(directions.domain, urls, name, login)
        try:
            managed = _managed(directions, link, name, identity, pool, publisher, subscriber)
            connection = Connection(
                pool, publisher, subscriber, link, managed, publishing, terms, keeping, selects=selects
            )
        except BaseException:
            await link.close()
            raise
        try:
            await managed.open()
        except BaseException:
            await connection.close()
            raise
        return connection
    except BaseException:
        await pool.close()
        raise


async def _meet(
    connection: Connection,
    pool: BrokerPool,
    first: ClientConnection,
    name: str,
    identity: Path | None,
    login: LoginSource | None,
) -> None:
    """Find out about a domain none of whose brokers was there at the beginning, when one is."""
    while not first.connected:
        with contextlib.suppress(TimeoutError, BrokerAwayError):
            await first.flush(MEET_S)
    for _ in range(MEETINGS):  # its gateway may come later than the broker
        directions = await _ask_directions(first)
        if directions is not None:
            break
        await asyncio.sleep(PATIENT_S / 2)
    urls = () if directions is None else directions.management_urls or (directions.management_url,)
    if directions is None or not any(urls):
        return
    pool.head_urls = list(directions.head_urls)
    pool.edge_urls = pool.edge_urls or [each.url for each in directions.edges]
    _go_on(first, directions)
    pool.at_home_in(directions.domain)
    link = ManagementLink(directions.domain, urls, name, login)
    managed = _managed(directions, link, name, identity, pool, first, first)
    connection.met(link, managed, directions.terms, directions.client_limits, selects=directions.selectors)
    await managed.open()


def _go_on(wire: ClientConnection, directions: Directions) -> None:
    try:
        wire.go_on_at(directions.head_urls)
    except ValueError as error:
        log.warning("who takes over from the head is not known: %s", error)


def _managed(
    directions: Directions,
    link: ManagementLink,
    name: str,
    identity: Path | None,
    pool: BrokerPool,
    publisher: ClientConnection,
    subscriber: ClientConnection,
) -> Managed:
    from mangrove.client.management.identity import Identity, identity_in
    from mangrove.client.management.managed import Managed

    key = Identity() if identity is None else identity_in(identity)
    return Managed(directions, link, key, name, pool, publisher, subscriber)


async def _ask_directions(wire: ClientConnection) -> Directions | None:
    """What the gateway of the domain that was reached says of it; None if there is none that knows."""
    try:
        answer = await wire.request(DIRECTIONS_SUBJECT, b"", timeout_s=DIRECTIONS_S)
        return msgspec.json.decode(answer.data, type=Directions).seen_from(wire.url)
    except (BrokerAwayError, NoResponderError, NotAllowedError, TimeoutError):
        return None
    except UNREADABLE as error:
        log.warning("directions that cannot be read are ignored: %s", error)
        return None


async def _head(pool: BrokerPool, told: Directions, reached: ClientConnection) -> ClientConnection:
    """The head that the directions name, or who takes over; what was reached, if there is no way to it."""
    try:
        head = await pool.open(list(told.head_urls))
    except BrokerAwayError as error:
        log.warning("the head is published at through %s: %s", reached.url, error.message)
        return reached
    pool.let_go(reached)
    return head


def _found(place: _Place) -> tuple[DomainEndpoints, Directions, External | None]:
    """What the runtime file of this machine says of the domain."""
    runtime = find_running(place.federation, place.run_dir)
    domain = next(iter(runtime.domains)) if place.domain is None else place.domain
    endpoints = runtime.domains.get(domain)
    if endpoints is None:
        raise InputError(
            f"the federation {runtime.federation.name!r} has no domain {domain!r}",
            hint=f"choose one of: {', '.join(runtime.domains)}",
        )
    external = runtime.federation.domains[domain].external
    head_url = endpoints.head.client_url
    if external is not None and external.kind is not BrokerKind.NATS:
        head_url = external.leaf  # with what of the broker is used
    directions = Directions(
        federation=runtime.federation.name,
        domain=domain,
        head=BrokerDirection(name=endpoints.head.name, url=head_url),
        edges=tuple(BrokerDirection(name=edge.name, url=edge.client_url) for edge in endpoints.edges),
        succession=not endpoints.head.external,
        management_url=endpoints.management.client_url,
        management_urls=tuple(broker.client_url for broker in endpoints.managements),
        placement=runtime.federation.domains[domain].placement,
        terms=local_rules(runtime.federation, domain).terms(),
        client_limits=runtime.federation.limits.client,
        selectors=endpoints.head.kind is BrokerKind.NATS,
    )
    return endpoints, directions, external


async def _first(pool: BrokerPool, urls: list[str], *, patient: bool) -> ClientConnection:
    try:
        return await pool.open(urls, patient_s=PATIENT_S if patient else None)
    except LoginRefusedError as error:
        raise LoginError(error.message, hint=error.hint) from None
    except BrokerAwayError as error:
        raise NotConnectedError(
            error.message, hint="is the federation running? mangrove status tells"
        ) from None
