"""Which gateway of a domain carries, said on its management broker.

Two gateways that cannot hear each other on their line may still both reach that broker, and the one that
began earlier learns there, within a moment, that it was displaced.
"""

from __future__ import annotations

import asyncio
import contextlib

import msgspec
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from mangrove.gateway.pair.pair import Pair
from mangrove.model.shared_names import gateway_carries_subject
from mangrove.model.unreadable import UNREADABLE

SAY_EVERY_S = 0.5


class Carries(msgspec.Struct, frozen=True, kw_only=True):
    """A gateway says that it carries, since when by its epoch."""

    epoch: int


class Announcement:
    """Says it again and again, because who was cut off from the broker has to hear it later."""

    def __init__(self, domain: str, pair: Pair) -> None:
        self._subject = gateway_carries_subject(domain)
        self._pair = pair

    async def subscribe(self, connection: Client) -> None:
        """Hear the other one."""
        await connection.subscribe(self._subject, cb=self._heard)

    async def deliver(self, connection: Client) -> None:
        """Say it for as long as a connection lasts or until cancelled."""
        while True:
            with contextlib.suppress(nats.errors.Error, OSError):  # it is said again
                await connection.publish(self._subject, msgspec.json.encode(Carries(epoch=self._pair.epoch)))
            await asyncio.sleep(SAY_EVERY_S)

    async def _heard(self, message: Msg) -> None:
        try:
            self._pair.learned(msgspec.json.decode(message.data, type=Carries).epoch)
        except UNREADABLE:
            self._pair.ignored += 1
