"""Serves a host's processes to the agents of its domain: brokers are switched as they ask.

Hosts whose federation files differ would build two domains out of one. Whoever comes to the management broker
greets the others; of two that disagree the one that started later says why, and ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from mangrove.agent.hosting.client_logins import ClientLogins
from mangrove.agent.hosting.silence import answers
from mangrove.broker.kinds import kind_of
from mangrove.errors import InputError, MangroveError
from mangrove.host.event_stream.event_publisher import EventPublisher
from mangrove.host.keys.login import LoginSource
from mangrove.host.nats_connecting import close_in_time, connect_or_close
from mangrove.host.process import ManagedProcess
from mangrove.host.status_publisher import StatusPublisher
from mangrove.model.agents.names import announcement_subject, supervisor_subject, supervisors_subject
from mangrove.model.agents.registration import AgentStarted
from mangrove.model.endpoints import BrokerEndpoints
from mangrove.model.hosting.broker_status import BrokerStatus
from mangrove.model.hosting.supervision import (
    BrokerAction,
    BrokerOrder,
    HostAnswer,
    HostGreeting,
    HostQuestion,
    ProcessState,
    SupervisorRequest,
)
from mangrove.model.stream.messages import host_part
from mangrove.model.unreadable import UNREADABLE

log = logging.getLogger(__name__)

RETRY_S = 0.5
GREETED_S = 1.5
"""Others have so long to say that they were here before, when a host joins. One that agrees does for all."""
STREAM_S = 2.0
"""How often brokers are looked at for those who listen to the status stream."""
HINT = "give all hosts of a domain the same file, then start this one again"

T = TypeVar("T")
_request: msgspec.json.Decoder[SupervisorRequest] = msgspec.json.Decoder(SupervisorRequest)
_announcement = msgspec.json.Decoder(AgentStarted)
_answer = msgspec.json.Decoder(HostAnswer)


class Supervision:
    """One host's ear on the management broker, for as long as its site runs."""

    def __init__(
        self,
        domain: str,
        host: str,
        management_urls: Sequence[str],
        digest: str,
        brokers: Mapping[str, tuple[BrokerEndpoints, ManagedProcess]],
        daemons: Sequence[ManagedProcess],
        login: LoginSource | None = None,
        logins: ClientLogins | None = None,
        events: Sequence[Path] = (),
    ) -> None:
        """Orders are for `brokers`; what is told of is `daemons`, too, which write their events down.

        Where there are keys, `logins` knows who came by which.
        """
        self._logins = logins
        self._login = login
        self._domain = domain
        self._urls = list(management_urls)
        self._brokers = brokers
        self._daemons = daemons
        self._off: set[str] = set()
        self._term = 0
        """Of the latest leader that was heard of."""
        self._switching = asyncio.Lock()
        self._publisher = StatusPublisher(domain, {host_part(host): self.full_account}, period_s=STREAM_S)
        self._events = EventPublisher(domain, host, events)
        self.greeting = HostGreeting(host=host, digest=digest, started_at=time.time())
        self.disagreement: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Done, with the reason, when this host must not go on."""

    async def run(self) -> None:
        """Serve until cancelled. A management broker that is away is tried again for ever."""
        while True:
            try:
                connection = await _connected(self._urls, self._login, reconnect=True)
            except (OSError, nats.errors.Error, TimeoutError) as error:
                log.debug("management broker: %s; trying again", error)
                await asyncio.sleep(RETRY_S)
                continue
            try:
                host = self.greeting.host
                await connection.subscribe(supervisor_subject(self._domain, host), cb=self._heard)
                await connection.subscribe(supervisors_subject(self._domain), cb=self._heard)
                await connection.subscribe(announcement_subject(self._domain), cb=self._heard_leader)
                inbox = connection.new_inbox()
                await connection.subscribe(inbox, cb=self._answered)
                telling = [
                    await _telling(self._publisher, connection, "status stream"),
                    await _telling(self._events, connection, "events"),
                ]
                try:
                    await self._greet(connection, inbox)
                finally:
                    for task in telling:
                        task.cancel()
                    await asyncio.wait(telling)
            except (OSError, nats.errors.Error) as error:
                log.debug("management broker: %s", error)
            finally:
                await close_in_time(connection)

    async def _greet(self, connection: Client, inbox: str) -> None:
        """Say again now and then who is here: whoever was cut off when it was said first may hear it now."""
        greeting = msgspec.json.encode(self.greeting)
        while not connection.is_closed:
            await connection.publish(supervisors_subject(self._domain), greeting, reply=inbox)
            await asyncio.sleep(10 * RETRY_S)

    async def full_account(self) -> HostAnswer:
        """What runs here, and what the brokers say of themselves."""
        return msgspec.structs.replace(self._account(""), brokers=await self._broker_statuses())

    async def _heard(self, message: Msg) -> None:
        try:
            request = _request.decode(message.data)
        except UNREADABLE as error:
            log.warning("a request that cannot be read: %s", error)
            return
        problem = ""
        if isinstance(request, HostGreeting):
            self._judge(request)
        elif isinstance(request, BrokerOrder):
            problem = await self._carry_out(request)
        if message.reply:
            with contextlib.suppress(OSError, nats.errors.Error):
                answer = self._account(problem)
                if isinstance(request, HostQuestion) and request.brokers:
                    answer = msgspec.structs.replace(answer, brokers=await self._broker_statuses())
                if isinstance(request, HostQuestion) and request.old_keys and self._logins is not None:
                    answer = msgspec.structs.replace(
                        answer,
                        keys_generation=self._logins.generation,
                        old_logins=await self._logins.by_old_keys(),
                    )
                await message.respond(msgspec.json.encode(answer))

    async def _broker_statuses(self) -> tuple[BrokerStatus, ...]:
        """What the brokers of this host show to it alone; their part in the domain is known to who asks."""
        brokers = [broker for broker, _ in self._brokers.values()]
        return tuple(await asyncio.gather(*(kind_of(each.kind).status(each, "") for each in brokers)))

    async def _heard_leader(self, message: Msg) -> None:
        with contextlib.suppress(*UNREADABLE):
            self._announced(_announcement.decode(message.data).term)

    async def _answered(self, message: Msg) -> None:
        with contextlib.suppress(*UNREADABLE):
            self._judge(_answer.decode(message.data).greeting)

    def _judge(self, other: HostGreeting) -> None:
        reason = disagreement(self.greeting, other)
        if reason and not self.disagreement.done():
            self.disagreement.set_result(reason)

    def _announced(self, term: int) -> None:
        self._term = max(self._term, term)

    async def _carry_out(self, order: BrokerOrder) -> str:
        if order.broker not in self._brokers:
            return f"{order.broker} does not run on this host"
        if order.term < self._term:
            return f"the leader of term {order.term} orders nothing any more"
        self._announced(order.term)
        broker, process = self._brokers[order.broker]
        async with self._switching:
            if order.action is BrokerAction.RESTART and process.pid is not None and await answers(broker):
                return f"{order.broker} answers on its own host"
            log.warning("%s: %s, as an agent asks", order.broker, order.action.value)
            try:
                match order.action:
                    case BrokerAction.START if process.pid is not None:
                        pass
                    case BrokerAction.START:
                        await process.stop()  # a restart after a failure may be under way
                        await process.start()
                    case BrokerAction.STOP:
                        await process.stop()
                    case BrokerAction.RESTART:
                        await process.kill()
                        await process.start()
            except MangroveError as error:
                return error.message
            finally:
                (self._off.add if order.action is BrokerAction.STOP else self._off.discard)(order.broker)
        return ""

    def _account(self, problem: str) -> HostAnswer:
        states = [
            ProcessState(
                name=process.name,
                pid=process.pid,
                restarts=process.restarts,
                switched_off=process.name in self._off,
            )
            for process in (*(process for _, process in self._brokers.values()), *self._daemons)
        ]
        return HostAnswer(greeting=self.greeting, processes=tuple(states), problem=problem)


def disagreement(mine: HostGreeting, other: HostGreeting) -> str:
    """Why a host must not go on beside another; empty if it may. Of two, the later one must not."""
    earlier = (other.started_at, other.host) < (mine.started_at, mine.host)
    if other.digest == mine.digest or not earlier:
        return ""
    return (
        f"host {other.host or 'of the whole domain'!r} runs by another federation file "
        f"({other.digest[:8]}, here {mine.digest[:8]})"
    )


async def check_agreement(
    domain: str,
    host: str,
    digest: str,
    management_urls: Sequence[str],
    login: LoginSource | None = None,
    within_s: float = 1.0,
) -> None:
    """Refuse to join hosts that run by another file. Hosts that cannot be reached are not asked."""
    greeting = HostGreeting(host=host, digest=digest, started_at=time.time())
    try:
        async with asyncio.timeout(within_s):
            connection = await _connected(management_urls, login, reconnect=False)
    except (OSError, nats.errors.Error, TimeoutError):
        return
    try:
        inbox = connection.new_inbox()
        answers = await connection.subscribe(inbox)
        await connection.publish(supervisors_subject(domain), msgspec.json.encode(greeting), reply=inbox)
        with contextlib.suppress(TimeoutError, nats.errors.Error):
            async with asyncio.timeout(GREETED_S):
                async for message in answers.messages:
                    if not message.data:  # nobody was there to answer
                        return
                    reason = disagreement(greeting, _answer.decode(message.data).greeting)
                    if reason:
                        raise InputError(f"this host does not join {domain}: {reason}", hint=HINT)
                    return
    finally:
        await close_in_time(connection)


async def _telling(
    publisher: StatusPublisher | EventPublisher, connection: Client, name: str
) -> asyncio.Task[None]:
    await publisher.subscribe(connection)
    return asyncio.create_task(publisher.deliver(connection), name=name)


async def _connected(urls: Sequence[str], login: LoginSource | None, *, reconnect: bool) -> Client:
    async def quiet(_: Exception) -> None:
        """A broker that is away is tried again."""

    return await connect_or_close(
        list(urls),
        login=login,
        name="supervisor",
        allow_reconnect=reconnect,
        max_reconnect_attempts=-1 if reconnect else 1,
        reconnect_time_wait=RETRY_S,
        connect_timeout=1,
        ping_interval=1,
        max_outstanding_pings=2,
        error_cb=quiet,
    )
