"""Callbacks of many subscriptions: one that waits holds nobody up."""

from __future__ import annotations

import asyncio

from mangrove.client.callbacks import Callbacks


class Called:
    """Notes who is called; waits for `gate` if there is one."""

    def __init__(self, name: int, log: list[int], gate: asyncio.Event | None = None) -> None:
        self.name, self.log, self.gate = name, log, gate

    async def call(self) -> None:
        if self.gate is not None:
            await self.gate.wait()
        self.log.append(self.name)


async def test_those_that_wait_hold_nobody_up() -> None:
    callbacks = Callbacks()
    log: list[int] = []
    gate = asyncio.Event()
    for number in range(30):
        callbacks.add(Called(number, log, gate if number % 3 == 0 else None))
    for _ in range(50):
        await asyncio.sleep(0)
    assert log == [number for number in range(30) if number % 3]
    callbacks.add(Called(30, log))
    await asyncio.sleep(0)
    assert log[-1] == 30, "also who comes later"
    gate.set()
    for _ in range(50):
        await asyncio.sleep(0)
    assert sorted(log) == list(range(31))
    assert not callbacks._tasks


async def test_a_thousand_that_do_not_wait_need_two_tasks() -> None:
    callbacks = Callbacks()
    log: list[int] = []
    most = 0

    class Counting(Called):
        async def call(self) -> None:
            nonlocal most
            most = max(most, len(callbacks._tasks))
            await super().call()

    for number in range(1000):
        callbacks.add(Counting(number, log))
    await asyncio.sleep(0)
    assert log == list(range(1000))
    assert most == 2
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not callbacks._tasks


async def test_a_task_that_is_cancelled_leaves_no_one_behind() -> None:
    callbacks = Callbacks()
    log: list[int] = []
    for number in range(3):
        callbacks.add(Called(number, log))
    assert callbacks._next is not None
    callbacks._next.cancel()
    for _ in range(5):
        await asyncio.sleep(0)
    assert log == [0, 1, 2]
    gate = asyncio.Event()
    callbacks.add(Called(3, log, gate))
    await asyncio.sleep(0)
    (task,) = callbacks._tasks
    task.cancel()
    callbacks.add(Called(4, log))
    for _ in range(5):
        await asyncio.sleep(0)
    assert log == [0, 1, 2, 4]
