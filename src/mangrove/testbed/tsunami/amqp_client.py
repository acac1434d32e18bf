"""A publisher or subscriber at a RabbitMQ: it speaks AMQP 0-9-1, and knows nothing of the federation."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from pathlib import Path

from pamqp import commands, frame, header

from mangrove.broker.rabbitmq.address import DEFAULT_EXCHANGE, GUEST, RabbitAddress
from mangrove.broker.rabbitmq.messages.publisher import Publisher
from mangrove.broker.rabbitmq.wire import frames
from mangrove.broker.rabbitmq.wire.connection import CHANNEL, HEARTBEAT_S, AmqpConnection
from mangrove.broker.rabbitmq.wire.frames import Delivery
from mangrove.host.keys.directory import ClientKeys, DomainKeys
from mangrove.model.endpoints import DomainEndpoints
from mangrove.model.security.users import FIRST_CLIENT

CONFIRMED_S = 20.0
PERSISTENT = 2


class AmqpClient:
    """One connection, whose channel confirms what is published."""

    def __init__(self, endpoints: DomainEndpoints, name: str) -> None:
        keys = DomainKeys(Path(endpoints.keys)).client(FIRST_CLIENT) if endpoints.keys else None
        self._connection = AmqpConnection(_address(endpoints, keys), name)
        self._tls = None if keys is None else ssl.create_default_context(cafile=str(keys.trusted))
        # What the broker does not take is missing at its subscribers, and so in the account.
        self._publisher = Publisher(lambda _writable: None, lambda _reason, _count: None)
        self._take: Callable[[bytes], None] = lambda _body: None
        self._beating: asyncio.Task[None] | None = None
        self._numbered = 0
        self._name = name

    async def open(self) -> None:
        """Connect."""
        await self._connection.open(self._tls)
        await self._connection.call(commands.Confirm.Select())
        self._connection.on_deliveries = self._delivered
        self._publisher.attached(self._connection)
        self._beating = asyncio.create_task(self._beat(), name=f"heartbeat of {self._name}")

    async def subscribe(self, key: str, take: Callable[[bytes], None]) -> None:
        """Have a queue bound by this key, and hand over what comes into it."""
        self._take = take
        declared = await self._connection.call(commands.Queue.Declare(exclusive=True))
        assert isinstance(declared, commands.Queue.DeclareOk)
        queue = declared.queue or ""
        await self._connection.call(
            commands.Queue.Bind(queue=queue, exchange=DEFAULT_EXCHANGE, routing_key=key)
        )
        await self._connection.call(commands.Basic.Qos(0, 1000))
        await self._connection.call(commands.Basic.Consume(queue=queue))

    def publish(self, key: str, body: bytes) -> None:
        """Publish persistently, with an id; `confirmed` tells when the broker has it."""
        self._numbered += 1
        described = commands.Basic.Properties(
            delivery_mode=PERSISTENT, message_id=f"{self._name}-{self._numbered}"
        )
        head = frame.marshal(header.ContentHeader(0, len(body), described), CHANNEL)
        parts = frames.body_frames(CHANNEL, body, self._connection.frame_max)
        self._publisher.publish([frames.publish_head(CHANNEL, DEFAULT_EXCHANGE, key) + head + parts])

    async def confirmed(self) -> None:
        """Wait until the broker has taken everything, or does not for long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CONFIRMED_S):
                while self._publisher.unconfirmed:  # noqa: ASYNC110 (it tells of no single confirmation)
                    await asyncio.sleep(0.02)

    async def close(self) -> None:
        """Disconnect."""
        if self._beating is not None:
            self._beating.cancel()
        await self._connection.close()

    def _delivered(self, deliveries: list[Delivery]) -> None:
        for delivery in deliveries:
            self._take(delivery.body)
        self._connection.write(frames.ack(CHANNEL, deliveries[-1].tag))

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S / 2)
            self._connection.beat()


def _address(endpoints: DomainEndpoints, keys: ClientKeys | None) -> RabbitAddress:
    return RabbitAddress(
        host=endpoints.head.host,
        port=endpoints.head.client_port,
        encrypted=keys is not None,
        user=GUEST if keys is None else keys.name,
        password=GUEST if keys is None else keys.password.read_text().strip(),
    )
