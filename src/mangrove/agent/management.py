"""The management broker of a domain, by one connection that is kept: here gateway and agent are asked."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self, TypeVar

import msgspec
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from mangrove.host.keys.logins.user_login import login_of
from mangrove.host.nats_connecting import close_in_time, connect_or_close
from mangrove.model.agents.directory import DirectoryAnswer, DirectoryQuestion
from mangrove.model.agents.names import (
    agent_status_subject,
    capacity_subject,
    directory_subject,
    operations_subject,
    supervisors_subject,
)
from mangrove.model.agents.operations import Operation, OperationAnswer
from mangrove.model.agents.status import AgentStatus
from mangrove.model.agents.usefulness import CapacityTaken, CapacityTold
from mangrove.model.endpoints import DomainEndpoints
from mangrove.model.hosting.supervision import HostAnswer, HostQuestion
from mangrove.model.questions.endangered import AvoidAnswer, AvoidRequest, gateway_avoid_subject
from mangrove.model.questions.versions_question import (
    VersionsAnswer,
    VersionsRequest,
    gateway_versions_subject,
)
from mangrove.model.security.users import OPERATOR_USER
from mangrove.model.shared_names import gateway_status_subject
from mangrove.model.status import GatewayStatus
from mangrove.model.topic_counts import CountCursor, TopicCounts, TopicCountsRequest, gateway_topics_subject
from mangrove.model.unreadable import UNREADABLE

TIMEOUT_S = 2.0
LOOK_S = 0.5
OPERATE_S = 15.0
"""A plan is answered when all agents hold it, or have been given up."""
PING_S, PINGS = 1, 2
"""A management broker that is frozen or cut off is left after so many pings, and another asked."""

T = TypeVar("T")


async def _quiet(_: Exception) -> None:
    """A broker that is away is an answer here, not an error."""


class ManagementConnection:
    """Asks the gateway and the agent of one domain.

    Connects at the first question, and again when the broker went away.
    """

    def __init__(self, endpoints: DomainEndpoints, user: str = OPERATOR_USER) -> None:
        """Where brokers let in whom they know, as this `user`."""
        self._domain = endpoints.domain
        self._login = login_of(endpoints.keys, user)
        self._urls = [broker.client_url for broker in endpoints.managements]
        self._connection: Client | None = None
        self._connecting = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def gateway_status(self) -> GatewayStatus | None:
        """What the gateway says of itself, or None if it does not answer."""
        return await self._ask(gateway_status_subject(self._domain), b"", GatewayStatus)

    async def topic_counts(self, cursor: CountCursor | None) -> TopicCounts | None:
        """What the gateway carried since `cursor`, or None if it does not answer."""
        request = msgspec.json.encode(TopicCountsRequest(cursor=cursor))
        return await self._ask(gateway_topics_subject(self._domain), request, TopicCounts)

    async def avoid(self, request: AvoidRequest) -> AvoidAnswer | None:
        """Tell the gateway what is endangered, or no longer; None if it does not answer."""
        return await self._ask(gateway_avoid_subject(self._domain), msgspec.json.encode(request), AvoidAnswer)

    async def versions(self, request: VersionsRequest) -> VersionsAnswer | None:
        """Ask the gateway about versions of the federation document; None if it does not answer."""
        encoded = msgspec.json.encode(request)
        return await self._ask(gateway_versions_subject(self._domain), encoded, VersionsAnswer)

    async def agent_status(self) -> AgentStatus | None:
        """What the agent says of itself, or None if it does not answer."""
        return await self._ask(agent_status_subject(self._domain), b"", AgentStatus)

    async def tell_capacity(self, told: CapacityTold) -> CapacityTaken | None:
        """Tell the agent what a broker can carry from now on; None if it does not answer."""
        return await self._ask(capacity_subject(self._domain), msgspec.json.encode(told), CapacityTaken)

    async def operate(self, operation: Operation, *, timeout_s: float = OPERATE_S) -> OperationAnswer | None:
        """Ask the leader for something; None if no leader answers in time."""
        request = msgspec.json.encode(operation)
        subject = operations_subject(self._domain)
        return await self._ask(subject, request, OperationAnswer, timeout_s=timeout_s)

    async def offer(self, name: str, document: bytes | None) -> None:
        """Leave a plan in the store, or take it out again; `StoreAwayError` if the store does not answer."""
        from mangrove.store.buckets import Buckets, StoreAwayError
        from mangrove.store.offers import PlanOffer, offer_plan, withdraw_plan

        try:
            buckets = Buckets(await self._connected(), len(self._urls))
        except (nats.errors.Error, OSError, TimeoutError) as error:
            raise StoreAwayError(f"the management broker is away: {error or type(error).__name__}") from None
        if document is None:
            await withdraw_plan(buckets, name)
        else:
            await offer_plan(buckets, PlanOffer(name=name, document=document))

    async def directory(self, question: DirectoryQuestion) -> DirectoryAnswer | None:
        """A page of the directory, or None if the agent does not answer."""
        request = msgspec.json.encode(question)
        return await self._ask(directory_subject(self._domain), request, DirectoryAnswer)

    async def hosts(
        self, expected: int, *, brokers: bool = False, old_keys: bool = False
    ) -> list[HostAnswer]:
        """What those who run the domain's hosts say of them; fewer than `expected` if some do not answer.

        With `brokers`, also what these say of themselves, which they show to their own host alone. With
        `old_keys`, also which clients are connected by keys that were replaced.
        """
        found: list[HostAnswer] = []
        if not expected:
            return found
        with contextlib.suppress(nats.errors.Error, OSError, TimeoutError, *UNREADABLE):
            connection = await self._connected()
            inbox = connection.new_inbox()
            answers = await connection.subscribe(inbox)
            try:
                question = msgspec.json.encode(HostQuestion(brokers=brokers, old_keys=old_keys))
                await connection.publish(supervisors_subject(self._domain), question, reply=inbox)
                async with asyncio.timeout(TIMEOUT_S):
                    while len(found) < expected:
                        message = await answers.next_msg(TIMEOUT_S)
                        if not message.data:  # nobody was there to answer
                            break
                        found.append(msgspec.json.decode(message.data, type=HostAnswer))
            finally:
                await answers.unsubscribe()
        return found

    async def listen(self, subject: str, heard: Callable[[Msg], Awaitable[None]]) -> bool:
        """Hear what is said on a subject, until the broker is gone; False if it is not there."""
        try:
            await (await self._connected()).subscribe(subject, cb=heard)
        except (nats.errors.Error, OSError, TimeoutError):
            return False
        return True

    async def gone(self) -> None:
        """Return when the broker is gone."""
        with contextlib.suppress(nats.errors.Error, OSError):
            while self._connection is not None:
                await asyncio.sleep(LOOK_S)
                await self._connection.flush()

    async def close(self) -> None:
        """Let go of the broker."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await close_in_time(connection)

    async def _ask(
        self, subject: str, request: bytes, kind: type[T], *, timeout_s: float = TIMEOUT_S
    ) -> T | None:
        try:
            connection = await self._connected()
            answer = await connection.request(subject, request, timeout=timeout_s)
            return msgspec.json.decode(answer.data, type=kind)
        except (nats.errors.Error, OSError, *UNREADABLE):
            return None

    async def _connected(self) -> Client:
        async with self._connecting:
            if self._connection is None or not self._connection.is_connected:
                await self.close()
                async with asyncio.timeout(TIMEOUT_S):
                    self._connection = await connect_or_close(
                        self._urls,
                        login=self._login,
                        allow_reconnect=False,
                        connect_timeout=1,
                        ping_interval=PING_S,
                        max_outstanding_pings=PINGS,
                        error_cb=_quiet,
                    )
            return self._connection
