"""A plain NATS client that publishes markers and listens for them."""

from __future__ import annotations

import asyncio
import contextlib
import logging

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from mangrove.broker.probing import ProbeOwner
from mangrove.host.keys.login import LoginSource
from mangrove.host.nats_connecting import close_in_time, connect_or_close, heed_cancellation
from mangrove.model.shared_names import PROBE_NAME

log = logging.getLogger(__name__)

RETRY_S = 1.0


class NatsProbe:
    """One connection, made again whenever it breaks."""

    def __init__(
        self, broker: str, url: str, subject: str, owner: ProbeOwner, login: LoginSource | None = None
    ) -> None:
        """Markers on `subject` are told to the owner."""
        self._broker = broker
        self._url = url
        self._subject = subject
        self._owner = owner
        self._login = login
        self._connection: Client | None = None
        self._warned = False

    @property
    def listening(self) -> bool:
        """Whether the broker has taken the subscription."""
        return self._connection is not None

    async def run(self) -> None:
        """Connect, and connect again whenever the broker goes away, until cancelled."""
        while True:
            try:
                await self._serve()
            except (OSError, nats.errors.Error) as error:
                if not self._warned:
                    log.warning("no probe of %s for now: %s", self._broker, error or type(error).__name__)
                self._warned = True
            await asyncio.sleep(RETRY_S)

    async def _serve(self) -> None:
        closed = asyncio.Event()

        async def on_closed() -> None:
            closed.set()

        async def on_error(error: Exception) -> None:
            log.debug("probe of %s: %s", self._broker, error)

        connection = await connect_or_close(
            self._url,
            login=self._login,
            name=PROBE_NAME,
            allow_reconnect=False,
            closed_cb=on_closed,
            error_cb=on_error,
        )
        try:
            await connection.subscribe(self._subject, cb=self._heard)
            await connection.flush()
            heed_cancellation()
            self._connection = connection
            self._warned = False
            await closed.wait()
        finally:
            self._connection = None
            self._owner.probe_lost(self._broker)
            await close_in_time(connection)

    async def publish(self, subject: str, payload: bytes) -> None:
        """Publish, if there is a connection."""
        if self._connection is not None:
            with contextlib.suppress(nats.errors.Error, OSError):
                await self._connection.publish(subject, payload)

    async def _heard(self, message: Msg) -> None:
        self._owner.heard(self._broker, message.data)
