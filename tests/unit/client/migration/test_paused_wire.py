"""What is published while a subject changes brokers."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from mangrove.broker.client_connection import BrokerAwayError, ClientConnection
from mangrove.client.migration import paused_wire as module
from mangrove.client.migration.paused_wire import PausedWire


class Written:
    """Keeps what is published."""

    def __init__(self) -> None:
        self.published: list[tuple[str, bytes, str, bytes]] = []
        self.flushed = 0

    def publish(self, subject: str, payload: bytes, *, reply: str = "", head: bytes = b"") -> None:
        self.published.append((subject, payload, reply, head))

    async def flush(self, timeout_s: float) -> None:
        self.flushed += 1


async def test_everything_leaves_in_the_order_of_publishing() -> None:
    paused, wire = PausedWire("s", 100), Written()
    outlet = paused.outlet("s", b"%d-%d")
    outlet.publish(b"one", 1, 2)
    paused.publish("s", b"two", reply="r", head=b"h")
    outlet.publish(b"three", 3, 4)
    assert (outlet.messages, outlet.size_bytes) == (2, 8)
    flushing = asyncio.create_task(paused.flush(5.0))
    await asyncio.sleep(0)
    assert not flushing.done()
    paused.release(cast("ClientConnection", wire))
    await flushing
    assert [each[1] for each in wire.published] == [b"one", b"two", b"three"]
    assert wire.published[:2] == [("s", b"one", "", b"1-2"), ("s", b"two", "r", b"h")]
    assert wire.flushed == 1


async def test_it_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 10)
    paused, wire = PausedWire("s", 100), Written()
    paused.publish("s", b"x" * 11)
    assert paused.full
    with pytest.raises(BrokerAwayError):
        paused.publish("s", b"y")
    waiting = asyncio.create_task(paused.drained())
    await asyncio.sleep(0)
    assert not waiting.done()
    paused.release(cast("ClientConnection", wire))
    await waiting
    assert not paused.full
