"""AMQP clients that we did not write: pika, each in a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import pika
from pika.adapters.blocking_connection import BlockingChannel

from mangrove.host.keys.directory import ClientKeys
from mangrove.model.endpoints import BrokerEndpoints

logging.getLogger("pika").setLevel(logging.CRITICAL)  # brokers die in these tests
TOPIC = "amq.topic"
PREFETCH = 200
T = TypeVar("T")


@dataclass(frozen=True)
class Got:
    """A message as an application got it."""

    key: str
    body: bytes
    properties: Any


def parameters(broker: BrokerEndpoints, client: ClientKeys | None, password: str = "") -> Any:
    """How to connect, with what is in a client's folder."""
    if client is None:
        return pika.ConnectionParameters(broker.host, broker.client_port)
    context = ssl.create_default_context(cafile=str(client.trusted))
    return pika.ConnectionParameters(
        broker.host,
        broker.client_port,
        credentials=pika.PlainCredentials(client.name, password or client.password.read_text().strip()),
        ssl_options=pika.SSLOptions(context),
    )


class AmqpClient:
    """One connection with one channel that confirms what is published."""

    def __init__(self, how: Any) -> None:
        self._how = how
        self._thread = ThreadPoolExecutor(1)
        self._connection: pika.BlockingConnection | None = None
        self.channel: BlockingChannel

    async def run(self, work: Callable[[], T]) -> T:
        """Do something in the thread of the connection."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def open(self) -> None:
        def connect() -> None:
            self._connection = pika.BlockingConnection(self._how)
            self.channel = self._connection.channel()
            self.channel.confirm_delivery()

        await self.run(connect)

    async def close(self) -> None:
        def end() -> None:
            if self._connection is not None and self._connection.is_open:
                self._connection.close()

        await self.run(end)
        self._thread.shutdown()

    async def queue(self, *keys: str, name: str = "") -> str:
        """A queue that is bound by these keys; one with a name is durable, others end with the connection."""

        def declare() -> str:
            made = self.channel.queue_declare(name, durable=bool(name), exclusive=not name).method.queue
            for key in keys:
                self.channel.queue_bind(made, TOPIC, key)
            return str(made)

        return await self.run(declare)

    async def publish(self, key: str, *bodies: bytes, exchange: str = TOPIC, **properties: Any) -> None:
        """Publish persistently; returns when all are confirmed."""
        described = pika.BasicProperties(delivery_mode=2, **properties)

        def send() -> None:
            for body in bodies:
                self.channel.basic_publish(exchange, key, body, described)

        await self.run(send)

    async def take(self, queue: str, count: int, *, timeout_s: float = 20.0) -> list[Got]:
        """Messages of a queue, until there are so many or the time is over."""

        def read() -> list[Got]:
            found: list[Got] = []
            until = time.monotonic() + timeout_s
            self.channel.basic_qos(prefetch_count=PREFETCH)
            for method, properties, body in self.channel.consume(queue, inactivity_timeout=0.05):
                if method is not None:
                    found.append(Got(method.routing_key, body, properties))
                    self.channel.basic_ack(method.delivery_tag)
                if len(found) == count or time.monotonic() > until:
                    break
            self.channel.cancel()
            return found

        return await self.run(read)


@asynccontextmanager
async def amqp_clients(how: Any, count: int = 1) -> AsyncIterator[Sequence[AmqpClient]]:
    """Some clients of one broker."""
    clients = [AmqpClient(how) for _ in range(count)]
    try:
        for client in clients:
            await client.open()
        yield clients
    finally:
        for client in clients:
            await client.close()
