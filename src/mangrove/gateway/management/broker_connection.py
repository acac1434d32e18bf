"""The gateway's connection to its domain's management broker, for as long as the gateway lives."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from mangrove.gateway.audience.desk import AudienceDesk
from mangrove.gateway.management.agent_mail import AgentMail
from mangrove.gateway.management.terms_teller import TermsTeller
from mangrove.gateway.pair.announcement import Announcement
from mangrove.host.keys.login import LoginSource
from mangrove.host.nats_connecting import close_in_time, connect_or_close
from mangrove.host.status_publisher import StatusPublisher
from mangrove.model.agents.speakers import speaker_of

log = logging.getLogger(__name__)

RETRY_S = 1.0
RECONNECT_S = 0.5
PING_S, PINGS = 1, 3
"""A management broker that is frozen or cut off is left for another after so many pings."""
MAX_UNREAD_MESSAGES = 1000
MAX_UNREAD_BYTES = 4 << 20

Answer = Callable[[bytes, str], bytes]
"""Makes an answer of a question, and of the user who asks if that is known."""


class ManagementConnection:
    """Answers questions, and carries what the own agent and those of linked domains say to each other."""

    def __init__(
        self,
        urls: Sequence[str],
        name: str,
        answers: Mapping[str, Answer],
        mail: AgentMail,
        desk: AudienceDesk,
        announcement: Announcement | None = None,
        login: LoginSource | None = None,
        publisher: StatusPublisher | None = None,
        teller: TermsTeller | None = None,
    ) -> None:
        """One of two gateways has an `announcement` to make; the `teller` speaks to clients."""
        self._teller = teller
        self._publisher = publisher
        self._login = login
        self._urls = list(urls)
        self._name = name
        self._answers = answers
        self._mail = mail
        self._desk = desk
        self._announcement = announcement

    async def run(self) -> None:
        """Serve until cancelled. A broker that is away is tried again, and told everything anew."""
        while True:
            try:
                connection = await connect_or_close(
                    self._urls,
                    login=self._login,
                    name=self._name,
                    max_reconnect_attempts=-1,
                    ping_interval=PING_S,
                    max_outstanding_pings=PINGS,
                    error_cb=self._failed,
                    reconnect_time_wait=RECONNECT_S,
                )
            except (OSError, nats.errors.Error) as error:
                log.warning("management broker %s: %s; trying again", ", ".join(self._urls), error)
                await asyncio.sleep(RETRY_S)
                continue
            try:
                await self._serve(connection)
            finally:
                await close_in_time(connection)

    async def _serve(self, connection: Client) -> None:
        for subject, answer in self._answers.items():
            await connection.subscribe(subject, cb=_responder(answer))

        async def posted(message: Msg) -> None:
            self._mail.posted(message.subject, message.data)

        await connection.subscribe(
            self._mail.subject,
            cb=posted,
            pending_msgs_limit=MAX_UNREAD_MESSAGES,
            pending_bytes_limit=MAX_UNREAD_BYTES,
        )
        await self._desk.subscribe(connection)
        if self._announcement is not None:
            await self._announcement.subscribe(connection)
        if self._publisher is not None:
            await self._publisher.subscribe(connection)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._mail.deliver(connection), name="agents' mail")
            tasks.create_task(self._desk.deliver(connection), name="leave to be silent")
            if self._announcement is not None:
                tasks.create_task(self._announcement.deliver(connection), name="who carries")
            if self._publisher is not None:
                tasks.create_task(self._publisher.deliver(connection), name="status stream")
            if self._teller is not None:
                tasks.create_task(self._teller.deliver(connection), name="contracts told")

    async def _failed(self, error: Exception) -> None:
        log.debug("management broker: %s", error)
        if isinstance(error, nats.errors.SlowConsumerError):
            if error.subject == self._desk.subject:
                self._desk.unread()
            else:
                self._mail.unread()


def _responder(answer: Answer) -> Callable[[Msg], Awaitable[None]]:
    async def respond(message: Msg) -> None:
        await message.respond(answer(message.data, speaker_of(message.subject)))

    return respond
