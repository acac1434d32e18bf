"""Where subjects are published follows the directory, without brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from mangrove.broker.client_connection import BrokerAwayError, ClientConnection
from mangrove.client.broker_pool import BrokerPool
from mangrove.client.management.publisher_moves import PublisherMoves
from mangrove.client.migration.paused_wire import PublishingWire
from mangrove.model.agents.registration import Migrated


class Head:
    """The broker that is published at."""

    url = "nats://head:4222"


class Pool:
    """All other brokers are away."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def at(self, url: str) -> ClientConnection:
        self.asked.append(url)
        raise BrokerAwayError("away")


def moves_of(pool: Pool) -> PublisherMoves:
    def route(subject: str, wire: PublishingWire) -> None:
        """Nothing is published."""

    def moved(subject: str, told: Callable[[str, int], Migrated] | None, problem: str) -> None:
        """Nobody is told."""

    return PublisherMoves("here", cast("BrokerPool", pool), cast("ClientConnection", Head()), route, moved)


async def test_nothing_moves_once_a_connection_is_closed() -> None:
    pool = Pool()
    moves = moves_of(pool)
    moves.follow("a", "nats://e1:4222")
    await asyncio.sleep(0)
    assert pool.asked == ["nats://e1:4222"]
    await moves.close()
    moves.follow("a", "nats://e2:4222")
    await asyncio.sleep(0)
    assert pool.asked == ["nats://e1:4222"]
