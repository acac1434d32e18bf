"""The SDK's connection: publishes at the head broker, subscribes at an edge broker, reconnects to both."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

import nats
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from mangrove.client.asks import Asks
from mangrove.client.gateway_questions import GatewayQuestions
from mangrove.client.message import Message, MessageIds, stamped
from mangrove.client.publisher import Publisher
from mangrove.client.readiness import Readiness
from mangrove.client.recent_ids import RecentIds
from mangrove.client.subscription import Callback, Subscription
from mangrove.errors import InputError, MangroveError
from mangrove.host.runtime_file import find_running
from mangrove.model.endpoints import DomainEndpoints
from mangrove.model.questions.session_quality import Quality, Role
from mangrove.model.subjects import subject_problem

log = logging.getLogger(__name__)

RECONNECT_S = 0.25
CONNECT_TIMEOUT_S = 5.0


class NotConnectedError(MangroveError):
    """No broker could be reached."""


class MessageTooLargeError(MangroveError):
    """A message above the federation's limit; it was not sent."""

    def __init__(self, subject: str, size_bytes: int, limit_bytes: int) -> None:
        self.subject = subject
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes
        super().__init__(
            f"the message of {size_bytes} bytes on {subject} is larger than the limit of {limit_bytes} bytes",
            hint="send less, or raise max_message_bytes in the federation file",
        )


class Connection:
    """Publish and subscribe in one domain of a federation. Made by `mangrove.connect`."""

    def __init__(
        self,
        publisher: Client,
        subscriber: Client,
        dropped: Counter[str],
        questions: GatewayQuestions | None = None,
    ) -> None:
        """`questions` go to the domain's gateway, if it is known."""
        self._questions = questions
        self._readiness = None if questions is None else Readiness(questions)
        self._asks = None if questions is None else Asks(questions)
        self._publisher = publisher
        self._subscriber = subscriber
        self._ids = MessageIds()
        self.dropped = dropped
        """Messages that this client could not keep up with, by subject."""
        self.refused: Counter[str] = Counter()
        """Messages that were too large to be sent, by subject."""

    async def publish(
        self, subject: str, data: bytes = b"", *, headers: Mapping[str, str] | None = None, reply: str = ""
    ) -> None:
        """Publish a message with a unique id and the present time in its headers."""
        _check(subject, wildcards=False)
        all_headers = stamped(headers, self._ids)
        self._check_size(subject, data, all_headers)
        try:
            await self._publisher.publish(subject, data, reply=reply, headers=all_headers)
        except (nats.errors.Error, OSError) as error:
            raise NotConnectedError(f"could not publish on {subject}: {error}") from None

    async def publisher(
        self,
        subject: str,
        *,
        deadline_ms: float | None = None,
        paths: int | None = None,
        resiliency: float | None = None,
    ) -> Publisher:
        """A publisher of one subject for whom its domain sends with more than the contract owes.

        Within the `limits` of the contract, and for as long as the publisher is open. AskRefusedError names
        what is possible.
        """
        _check(subject, wildcards=False)
        quality = Quality(deadline_ms=deadline_ms, paths=paths, resiliency=resiliency)
        return Publisher(subject, self.publish, await self._take(Role.PUBLISHER, subject, quality))

    async def subscribe(
        self,
        subject: str,
        *,
        queue: str = "",
        callback: Callback | None = None,
        deadline_ms: float | None = None,
        paths: int | None = None,
        resiliency: float | None = None,
    ) -> Subscription:
        """Subscribe to a subject or pattern, alone or as a member of a queue group.

        With a deadline, a number of paths or a resiliency all domains send here with more than the contract
        owes, within its `limits`, until the subscription ends. AskRefusedError names what is possible.
        """
        _check(subject, wildcards=True)
        quality = Quality(deadline_ms=deadline_ms, paths=paths, resiliency=resiliency)
        end = await self._take(Role.SUBSCRIBER, subject, quality)
        try:
            return await self._subscribe(subject, queue, callback, end)
        except BaseException:
            await end()
            raise

    async def _take(self, role: Role, subject: str, quality: Quality) -> Callable[[], Awaitable[None]]:
        """Ask the gateway, if there is anything to ask for; what ends it."""
        if not quality:
            return _nothing
        if self._asks is None:
            raise _unknown_gateway("grants more than a contract")
        return partial(self._asks.end, await self._asks.take(role, subject, quality))

    async def _subscribe(
        self, subject: str, queue: str, callback: Callback | None, end: Callable[[], Awaitable[None]]
    ) -> Subscription:
        recent = RecentIds()
        if callback is None:
            inner = await self._subscriber.subscribe(subject, queue=queue)
        else:
            handler = callback

            async def call(raw: Msg) -> None:
                message = self._convert(raw)
                if recent.is_new(message.subject, message.id):
                    await handler(message)

            inner = await self._subscriber.subscribe(subject, queue=queue, cb=call)
        await self._subscriber.flush()
        return Subscription(inner, self._convert, recent, partial(self._ready, subject, queue), end)

    async def ready(self, subject: str, *, queue: str = "", timeout: float = 10.0) -> None:
        """Wait until a subject that somebody in this domain wants is known wherever it may be published.

        What is published afterwards, in any domain that can be reached, will be sent here. Raises
        TimeoutError with the names of the domains that did not confirm.
        """
        _check(subject, wildcards=True)
        await self._ready(subject, queue, timeout)

    async def _ready(self, subject: str, queue: str, timeout: float) -> None:
        if self._readiness is None:
            raise _unknown_gateway("tells who is ready")
        await self._readiness.wait(subject, queue, timeout, self._ask_gateway)

    async def _ask_gateway(self, subject: str, timeout: float) -> None:
        await self._subscriber.request(subject, timeout=timeout)

    async def request(
        self,
        subject: str,
        data: bytes = b"",
        *,
        timeout: float = 2.0,
        headers: Mapping[str, str] | None = None,
    ) -> Message:
        """Send a request and wait for the first answer, from whichever domain."""
        _check(subject, wildcards=False)
        all_headers = stamped(headers, self._ids)
        self._check_size(subject, data, all_headers)
        try:
            answer = await self._publisher.request(subject, data, timeout=timeout, headers=all_headers)
        except nats.errors.NoRespondersError:
            raise MangroveError(
                f"nobody in the federation answers on {subject}", hint="start the service, or wait for it"
            ) from None
        except nats.errors.TimeoutError:
            raise TimeoutError(f"no answer on {subject} within {timeout:g} s") from None
        except (nats.errors.Error, OSError) as error:
            raise NotConnectedError(f"could not send a request on {subject}: {error}") from None
        return self._convert(answer)

    async def flush(self, timeout: int = 5) -> None:
        """Wait until the broker has taken everything that was published."""
        try:
            await self._publisher.flush(timeout=timeout)
        except (nats.errors.Error, OSError) as error:
            raise NotConnectedError(f"the broker did not confirm: {error}") from None

    async def close(self) -> None:
        """Send what is pending, then disconnect."""
        if self._asks is not None:
            await self._asks.close()
        if self._questions is not None:
            await self._questions.close()
        for client in {self._publisher, self._subscriber}:
            if client.is_connected:
                try:
                    await client.flush(timeout=2)
                except (nats.errors.Error, OSError) as error:
                    log.warning("messages may be unsent: %s", error)
            await client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _convert(self, message: Msg) -> Message:
        return Message(message.subject, message.data, message.headers or {}, message.reply, self._respond)

    async def _respond(self, reply: str, data: bytes, headers: Mapping[str, str] | None) -> None:
        await self.publish(reply, data, headers=headers)

    def _check_size(self, subject: str, data: bytes, headers: Mapping[str, str]) -> None:
        size = len(data) + sum(len(name) + len(value) + 4 for name, value in headers.items()) + 12
        if size > self._publisher.max_payload:
            self.refused[subject] += 1
            error = MessageTooLargeError(subject, size, self._publisher.max_payload)
            log.error("%s", error.message)
            raise error


async def _nothing() -> None:
    """Nothing was asked for."""


def _unknown_gateway(what: str) -> MangroveError:
    return MangroveError(
        f"this connection does not know its domain's management broker, which {what}",
        hint="connect with domain=… on a machine that runs the federation",
    )


def _check(subject: str, *, wildcards: bool) -> None:
    problem = subject_problem(subject, wildcards=wildcards)
    if problem:
        raise InputError(f"{subject!r} is not a valid subject: {problem}")


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
    if servers is None:
        endpoints = _endpoints_of(domain, federation, run_dir)
        questions = GatewayQuestions(endpoints.domain, endpoints.management.client_url)
        servers = [endpoints.head.client_url]
        edges = edges or [edge.client_url for edge in endpoints.edges]
    elif domain is not None:
        raise InputError("give either servers or a domain, not both")
    head_urls = [servers] if isinstance(servers, str) else list(servers)
    dropped: Counter[str] = Counter()
    publisher = await _client(head_urls, name, dropped)
    if not edges:
        return Connection(publisher, publisher, dropped, questions)
    try:
        # Subscribers spread over the edges; after a failure any edge, and at last the head, will do.
        order = random.sample(list(edges), len(edges))
        subscriber = await _client([*order, *head_urls], name, dropped)
    except BaseException:
        await publisher.close()
        raise
    return Connection(publisher, subscriber, dropped, questions)


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


async def _client(urls: list[str], name: str, dropped: Counter[str]) -> Client:
    async def report(error: Exception) -> None:
        if isinstance(error, nats.errors.SlowConsumerError):
            dropped[error.subject] += 1
            if dropped[error.subject] == 1:
                log.warning("this client is too slow for %s: messages are dropped", error.subject)
        else:
            log.info("broker connection: %s", error)

    try:
        # Once connected, the client reconnects for ever; so it would also try for ever to connect at all.
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            return await nats.connect(
                urls,
                name=name,
                error_cb=report,
                max_reconnect_attempts=-1,
                reconnect_time_wait=RECONNECT_S,
                connect_timeout=2,
                dont_randomize=True,
            )
    except (nats.errors.Error, OSError) as error:  # TimeoutError is an OSError
        raise NotConnectedError(
            f"cannot connect to {', '.join(urls)}: {str(error) or 'no answer'}",
            hint="is the federation running? mangrove status tells",
        ) from None
