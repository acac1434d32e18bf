"""Awaits the callbacks of many subscriptions: each one's in order, all side by side."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from typing import Protocol


class Called(Protocol):
    """A subscription with messages for its callback."""

    def call(self) -> Coroutine[None, None, None]:
        """Await the callback for all messages that wait."""


class Callbacks:
    """Runs callbacks in as many tasks as are held up, and one more.

    A task for each subscription would cost more than most callbacks do. Invariant: while any subscription
    waits for its turn, there is a task that is running or about to begin and will come to it.
    """

    def __init__(self) -> None:
        self._waiting: deque[Called] = deque()
        self._next: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, called: Called) -> None:
        """Call soon; not more than once before its turn has come."""
        self._waiting.append(called)
        self._need_one()

    def _need_one(self) -> None:
        if self._next is None:
            self._next = asyncio.get_running_loop().create_task(self._run(), name="callbacks")
            self._tasks.add(self._next)
            self._next.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task is self._next:  # cancelled before it began
            self._next = None
            if self._waiting:
                self._need_one()

    async def _run(self) -> None:
        self._next = None
        while self._waiting:
            called = self._waiting.popleft()
            if self._waiting:
                self._need_one()  # for the others, should this one have to wait for something
            await called.call()
