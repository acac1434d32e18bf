"""Consumers for which a RabbitMQ ends the whole connection: they cost others a few connections, not all."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import cast

from pamqp import commands
from pamqp.base import Frame

from mangrove.broker.client_connection import ConnectionCounts, Denial, RawMessage
from mangrove.broker.rabbitmq.client.subscriptions import QueueSubscription, Subscriptions
from mangrove.broker.rabbitmq.wire.connection import AmqpConnection, AmqpError

LOCKED = 403
MANY_TURNS = 100


class Line:
    """A connection that ends when one of some queues is consumed."""

    exchange = "amq.topic"

    def __init__(self, locked: set[str]) -> None:
        self._locked = locked
        self.closed = asyncio.Event()
        self.consumed: list[str] = []

    async def call(self, command: Frame, channel: int = 1) -> Frame:
        await asyncio.sleep(0)
        if isinstance(command, commands.Basic.Consume):
            if command.queue in self._locked:
                self.closed.set()
                raise AmqpError(f"ACCESS_REFUSED - queue '{command.queue}' in exclusive use", LOCKED)
            self.consumed.append(command.queue)
        return command

    def tell(self, command: Frame) -> None:
        """Nothing is cancelled here."""

    def abort(self, reason: str, code: int = 0) -> None:
        self.closed.set()


class Client:
    """Subscriptions that look for another connection whenever one ends."""

    def __init__(self, *groups: str) -> None:
        self.locked: set[str] = set()
        self.denied: Counter[str] = Counter()
        self.lines: list[Line] = []
        self.all = Subscriptions(2, ConnectionCounts(), self._denied)
        self.made = {
            group: QueueSubscription(number, f"{group}.x", group, "sdk.1", _take, RawMessage, None)
            for number, group in enumerate(groups, 1)
        }
        for each in self.made.values():
            self.all.add(each)

    def _denied(self, denial: Denial, subscription: QueueSubscription) -> None:
        self.denied[denial.queue] += 1

    async def connected(self) -> Line:
        """Connect until the broker lets a connection live."""
        for _ in range(MANY_TURNS):
            self.all.attach()
            line = Line(self.locked)
            self.lines.append(line)
            serving = asyncio.create_task(self.all.serve(cast("AmqpConnection", line)))
            settled = asyncio.create_task(self.all.settled(len(self.made)))
            await asyncio.wait([serving, settled], return_when=asyncio.FIRST_COMPLETED)
            for task in (serving, settled):
                task.cancel()
            await asyncio.gather(serving, settled, return_exceptions=True)
            if not line.closed.is_set():
                return line
        raise AssertionError("the broker ends every connection")

    def denials(self) -> set[str]:
        return {group for group, each in self.made.items() if each.denial is not None}


def _take(messages: list[RawMessage], size_bytes: int) -> None:
    """Nothing comes here."""


async def test_several_of_them_are_left_out_together() -> None:
    client = Client("a", "b", "c", "d")
    client.locked |= {"a", "b", "c"}
    line = await client.connected()
    assert line.consumed == ["d"]
    assert len(client.lines) == 4
    assert client.denied == {"a": 1, "b": 1, "c": 1}
    assert client.denials() == {"a", "b", "c"}


async def test_what_was_refused_is_asked_for_again_after_a_connection_that_served_all_others() -> None:
    client = Client("a", "b", "c")
    client.locked |= {"a", "b"}
    await client.connected()
    client.locked.discard("a")
    client.all.remove(client.made["b"])
    line = await client.connected()
    assert line.consumed == ["a", "c"]
    assert client.denied == {"a": 1, "b": 1}
    assert client.denials() == {"b"}


async def test_one_that_comes_later_is_refused_as_the_others() -> None:
    client = Client("a", "b", "c")
    client.locked |= {"a"}
    client.all.remove(client.made["b"])
    await client.connected()
    client.locked |= {"b"}
    client.all.add(client.made["b"])
    line = await client.connected()
    assert line.consumed == ["c"]
    assert client.denials() == {"a", "b"}
    assert len(client.lines) == 5
