"""The retained messages of a domain's MQTT clients: the stream `$MQTT_rmsgs` of nats-server.

nats-server stores what a client publishes with the retain flag under `$MQTT.rmsgs.<subject>`, one message for
each subject, and every server of the JetStream domain follows that stream. An empty payload deletes. Messages
that a gateway writes carry two headers more, which nats-server leaves alone: where they come from and how old
they are.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from time import time_ns

import msgspec
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import RetentionPolicy, StorageType
from nats.js.errors import Error as JetStreamError
from nats.js.errors import NotFoundError, ServiceUnavailableError

from mangrove.broker.retained import RetainedMessage, RetainedStoreOwner, StoreError
from mangrove.host.keys.login import LoginSource
from mangrove.host.nats_connecting import close_in_time, connect_or_close, heed_cancellation
from mangrove.model.unreadable import UNREADABLE

log = logging.getLogger(__name__)

STREAM = "$MQTT_rmsgs"
PREFIX = "$MQTT.rmsgs."
FLAGS_HEADER = "Nmqtt-RFlags"
ORIGIN_HEADER = "Mangrove-Origin"
VERSION_HEADER = "Mangrove-Version"
SESSION_PREFIX = "$MQTT.sess."
DELETED = "-"
NO_STORE = "no JetStream at the head broker: MQTT has QoS 0 only between domains, and retains nothing"
RETRY_S = 0.5
ANSWER_S = 5.0
_FLAGS = re.compile(r"-?[0-9a-f]{1,2}\Z")


class _Session(msgspec.Struct):
    """What nats-server stores of a session whenever its subscriptions change."""

    id: str = ""
    clean: bool = False
    subs: dict[str, int] = {}


class NatsRetainedStore:
    """A client of the head broker that reads and writes the stream."""

    def __init__(
        self,
        url: str,
        name: str,
        owner: RetainedStoreOwner,
        *,
        create: bool,
        login: LoginSource | None = None,
    ) -> None:
        """With `create`, the stream is made if no MQTT client has caused that yet."""
        self._url = url
        self._name = name
        self._owner = owner
        self._create = create
        self._login = login
        self._connection: Client | None = None
        self._warned = False

    async def run(self) -> None:
        """Connect, and connect again whenever the broker goes away, until cancelled."""
        while True:
            closed = asyncio.Event()
            try:
                await self._serve(closed)
            except (OSError, nats.errors.Error, JetStreamError) as error:
                if not self._warned:
                    log.warning("retained messages stay in this domain for now: %s", error or type(error))
                self._warned = True
            await asyncio.sleep(RETRY_S)

    async def _serve(self, closed: asyncio.Event) -> None:
        async def on_closed() -> None:
            closed.set()

        async def on_error(error: Exception) -> None:
            log.warning("retained messages: %s", error)
            if isinstance(error, nats.errors.SlowConsumerError):
                self._owner.store_attached()  # something was missed

        connection = await connect_or_close(
            self._url,
            login=self._login,
            name=self._name,
            allow_reconnect=False,
            closed_cb=on_closed,
            error_cb=on_error,
        )
        try:
            await connection.subscribe(f"{PREFIX}>", cb=self._published)
            await connection.subscribe(f"{SESSION_PREFIX}>", cb=self._session_stored)
            if self._create:
                await self._make_stream(connection)
            heed_cancellation()
            self._connection = connection
            self._warned = False
            self._owner.store_attached()
            await closed.wait()
        finally:
            self._connection = None
            await close_in_time(connection)

    async def read(self) -> AsyncIterator[RetainedMessage]:
        """All that the stream holds, deletions that a gateway wrote included."""
        connection = self._connected()
        try:
            jetstream = connection.jetstream(timeout=ANSWER_S)
            if not (await jetstream.stream_info(STREAM)).state.messages:
                return
            subscription = await jetstream.subscribe(f"{PREFIX}>", stream=STREAM, ordered_consumer=True)
            try:
                pending = 1
                while pending:
                    stored = await subscription.next_msg(timeout=ANSWER_S)
                    pending = stored.metadata.num_pending
                    message = _message(stored, int(stored.metadata.timestamp.timestamp() * 1e9))
                    if message is not None:
                        yield message
            finally:
                await subscription.unsubscribe()
        except NotFoundError:
            return
        except (ServiceUnavailableError, nats.errors.NoRespondersError, nats.errors.TimeoutError):
            raise StoreError(NO_STORE) from None
        except (OSError, nats.errors.Error, JetStreamError) as error:
            raise StoreError(f"retained messages cannot be read: {error or type(error).__name__}") from None

    async def write(self, message: RetainedMessage) -> None:
        """Put a message into the stream, in the place of the one before it."""
        connection = self._connected()
        flags = f"{message.qos << 1 | 1:x}"
        headers = {
            FLAGS_HEADER: flags if message.payload else f"{DELETED}{flags}",
            ORIGIN_HEADER: message.origin,
            VERSION_HEADER: str(message.version),
        }
        try:
            await connection.jetstream(timeout=ANSWER_S).publish(
                f"{PREFIX}{message.subject}", message.payload, headers=headers
            )
        except (OSError, nats.errors.Error, JetStreamError) as error:
            raise StoreError(f"retained message not stored: {error or type(error).__name__}") from None

    async def _make_stream(self, connection: Client) -> None:
        """As nats-server makes it for its first MQTT client, so that this one finds what came before it."""
        jetstream = connection.jetstream(timeout=ANSWER_S)
        try:
            await jetstream.stream_info(STREAM)
        except NotFoundError:
            await jetstream.add_stream(
                name=STREAM,
                subjects=[f"{PREFIX}>"],
                storage=StorageType.FILE,
                retention=RetentionPolicy.LIMITS,
                num_replicas=1,
                max_msgs_per_subject=1,
            )

    async def _published(self, stored: Msg) -> None:
        message = _message(stored, time_ns())
        if message is not None and not message.origin:
            self._owner.retained(message)

    async def _session_stored(self, stored: Msg) -> None:
        try:
            session = msgspec.json.decode(stored.data, type=_Session)
        except UNREADABLE:
            return
        if not session.clean and any(session.subs.values()):
            self._owner.session_kept(session.id)

    def _connected(self) -> Client:
        if self._connection is None:
            raise StoreError("retained messages cannot be kept: the head broker is away")
        return self._connection


def _message(stored: Msg, now_ns: int) -> RetainedMessage | None:
    """A message of the stream; None for what is not one of nats-server's making, or of ours."""
    headers = stored.headers or {}
    flags = headers.get(FLAGS_HEADER, "")
    if not _FLAGS.match(flags):
        return None
    version = headers.get(VERSION_HEADER, "")
    return RetainedMessage(
        subject=stored.subject.removeprefix(PREFIX),
        payload=stored.data,
        origin=headers.get(ORIGIN_HEADER, ""),
        version=int(version) if version.isascii() and version.isdigit() and len(version) < 20 else now_ns,
        qos=min(2, int(flags.removeprefix(DELETED), 16) >> 1 & 3),
    )
