"""Publishers of mirrored topics do not wait for a primary that takes nothing while a mirror does."""

from __future__ import annotations

import asyncio
from collections.abc import Container

from mangrove.broker.client_connection import Outlet
from mangrove.client.mirroring.mirrored_wire import MirroredTopic, MirroredWire
from mangrove.client.mirroring.window import Window


class Wire:
    """A connection that takes no more until it is told."""

    max_payload = 1 << 20

    def __init__(self, full: bool) -> None:
        self.room = asyncio.Event()
        if not full:
            self.room.set()

    @property
    def full(self) -> bool:
        return not self.room.is_set()

    async def drained(self) -> None:
        await self.room.wait()

    async def flush(self, timeout_s: float) -> None:
        await self.room.wait()

    def publish(self, subject: str, payload: bytes, *, reply: str = "", head: bytes = b"") -> None:
        raise NotImplementedError

    def outlet(self, subject: str, head_form: bytes) -> Outlet:
        raise NotImplementedError

    @property
    def connected(self) -> bool:
        raise NotImplementedError

    def recall(self, subjects: Container[bytes]) -> None:
        raise NotImplementedError

    def abandon(self, reason: str) -> None:
        raise NotImplementedError


class Doubts:
    """Who is taken for dead."""

    def __init__(self) -> None:
        self.who: set[object] = set()

    def silent(self, wire: object) -> bool:
        return wire in self.who


def parts(mirrors: int) -> tuple[Wire, MirroredTopic, Doubts, MirroredWire]:
    primary, topic, doubts = Wire(full=True), MirroredTopic("t", Window()), Doubts()
    topic.wires = [Wire(full=False) for _ in range(mirrors)]  # type: ignore[misc]
    return primary, topic, doubts, MirroredWire(primary, topic, doubts)


async def test_a_primary_that_takes_nothing_is_not_waited_for_while_a_mirror_does() -> None:
    _, _, _, wire = parts(mirrors=1)
    assert wire.full
    await asyncio.wait_for(wire.drained(), 5)
    assert not wire.full, "publishers go on"


async def test_without_a_mirror_the_primary_is_waited_for() -> None:
    primary, _, _, wire = parts(mirrors=0)
    waiting = asyncio.create_task(wire.drained())
    await asyncio.sleep(0.05)
    assert not waiting.done()
    assert wire.full
    primary.room.set()
    await asyncio.wait_for(waiting, 5)
    assert not wire.full


async def test_a_mirror_that_is_taken_into_use_meanwhile_ends_the_wait() -> None:
    _, topic, _, wire = parts(mirrors=0)
    waiting = asyncio.create_task(wire.drained())
    await asyncio.sleep(0.02)
    topic.wires = [Wire(full=False)]  # type: ignore[list-item]
    await asyncio.wait_for(waiting, 5)
    assert not wire.full


async def test_a_silent_primary_is_not_waited_for_at_all() -> None:
    primary, _, doubts, wire = parts(mirrors=1)
    doubts.who.add(primary)
    assert not wire.full


async def test_a_full_mirror_is_waited_for() -> None:
    primary, topic, _, wire = parts(mirrors=0)
    primary.room.set()
    mirror = Wire(full=True)
    topic.wires = [mirror]  # type: ignore[list-item]
    assert wire.full
    waiting = asyncio.create_task(wire.drained())
    await asyncio.sleep(0.03)
    assert not waiting.done()
    mirror.room.set()
    await asyncio.wait_for(waiting, 5)
