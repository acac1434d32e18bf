"""A RabbitMQ that is short of memory for as long as it runs: it hears nobody who publishes, and lives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.kit.waiting import eventually

import mangrove
from mangrove.broker.rabbitmq.client.connection import RabbitClientConnection
from mangrove.broker.rabbitmq.hosting.server import rabbitmq_server
from mangrove.client.offline.keeper import NO_ANSWER_S
from mangrove.host.ports import PortReservation

HOST = "127.0.0.1"


@pytest.fixture
async def short_of_memory(tmp_path: Path) -> AsyncIterator[str]:
    with PortReservation() as ports:
        port = ports.take(HOST)
        lines = {
            "listeners.tcp.1": f"{HOST}:{port}",
            "vm_memory_high_watermark.absolute": "20MB",
            "log.console": "true",
            "log.file": "false",
        }
        configuration = "".join(f"{name} = {value}\n" for name, value in lines.items()).encode()
        process = rabbitmq_server("short", port, tmp_path, {"rabbitmq.conf": configuration}, plugins=())
        await process.start()
        yield f"amqp://guest:guest@{HOST}:{port}/"
        await process.stop()


async def test_it_is_not_left_for_confirming_nothing(short_of_memory: str) -> None:
    """Whoever came back to it again and again would lose the queues of his subscriptions each time."""
    offline = mangrove.Offline(settle_s=0)
    async with mangrove.connect(short_of_memory, offline=offline) as connection:
        wire = connection.wire_of("a.b")
        assert isinstance(wire, RabbitClientConnection)
        connection.publish_nowait("a.b", b"1")

        async def full() -> bool:
            return wire.full

        await eventually(full, "the broker should say that it takes nothing")
        await asyncio.sleep(NO_ANSWER_S + 1)
        assert wire.connected
        assert wire.counts.connects == 1
        assert not wire.counts.lost
