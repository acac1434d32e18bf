"""What a part of a domain says of itself while somebody listens, also when another part cannot."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from tests.kit.waiting import eventually

from mangrove.host import status_publisher
from mangrove.host.status_publisher import StatusPublisher
from mangrove.model.stream.messages import said_subject
from mangrove.model.topic_counts import TopicTotals


class Connection:
    """Keeps the subjects on which something was said."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.hear: Callable[[Msg], Awaitable[None]]

    async def subscribe(self, subject: str, *, cb: Callable[[Msg], Awaitable[None]], **_: object) -> None:
        self.hear = cb

    async def publish(self, subject: str, payload: bytes) -> None:
        self.said.append(subject)


async def test_an_account_that_cannot_be_made_ends_nothing_and_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(status_publisher, "MIN_GAP_S", 0.001)
    broken = True

    async def gateway() -> TopicTotals:
        if broken:
            raise ValueError("no such link")
        return await topics()

    async def topics() -> TopicTotals:
        return TopicTotals(domain="here", epoch=1, uptime_s=0.0)

    connection = Connection()
    client = cast("Client", connection)
    publisher = StatusPublisher("here", {"gateway": gateway, "topics": topics}, period_s=0.01)
    await publisher.subscribe(client)
    telling = asyncio.create_task(publisher.deliver(client))
    await connection.hear(Msg(client, data=b'{"whole": ["*"]}'))

    async def told() -> bool:
        return len(connection.said) >= 3

    await eventually(told, "the other part should be told of")
    assert set(connection.said) == {said_subject("here", "topics")}
    assert "the account of gateway cannot be made" in caplog.text
    assert "ValueError: no such link" in caplog.text
    broken = False

    async def again() -> bool:
        return said_subject("here", "gateway") in connection.said

    await eventually(again, "it should be told of when it can be")
    telling.cancel()
    await asyncio.wait([telling])
