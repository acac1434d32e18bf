"""A connection is closed as a whole, whatever fails on the way."""

from __future__ import annotations

from typing import cast

import pytest

from mangrove.broker.client_connection import ClientConnection
from mangrove.client.broker_pool import BrokerPool
from mangrove.client.connection import Connection
from mangrove.client.management.managed import Managed
from mangrove.errors import MangroveError


class Pool:
    """Brokers that are let go of."""

    closed = False
    when_denied = None

    async def close(self) -> None:
        self.closed = True


class Failing:
    """An agent's view of the connection that cannot be ended in order."""

    def begin(self, *parts: object) -> None:
        """It begins."""

    async def close(self) -> None:
        raise MangroveError("something odd")


async def test_what_fails_keeps_nothing_else_from_being_closed() -> None:
    pool = Pool()
    head = cast("ClientConnection", object())
    connection = Connection(cast("BrokerPool", pool), head, head, managed=cast("Managed", Failing()))
    with pytest.raises(MangroveError, match="something odd"):
        await connection.close()
    assert pool.closed
