"""A publisher, subscribers that keep up, and one that does not, in processes of their own."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection as Pipe
from typing import Any

import nats

from mangrove.client import Connection, Gap, Message, SlowSubscriberError, Subscription, connect
from mangrove.testbed.slow.stream import (
    FLOOD_SUBJECT,
    INTERESTS,
    KEYWORDS,
    SUBJECT,
    TENTH,
    number_and_delay_ms,
    payload,
)
from mangrove.testbed.worker_process import carry_out

TICK_S = 0.005
QUIET_S = 0.3
LATEST_S = 10.0
FLOOD_BYTES = 16 << 10
BLOCKED_S = 0.005


def run_worker(pipe: Pipe, kind: str, url: str, *arguments: Any) -> None:
    """Runs in a process: one of the classes below, until it is told to end."""
    import uvloop

    logging.getLogger("mangrove").setLevel(logging.ERROR)  # who is too slow is too slow on purpose
    uvloop.run(_serve(pipe, kind, url, arguments))


async def _serve(pipe: Pipe, kind: str, url: str, arguments: tuple[Any, ...]) -> None:
    classes = {"publisher": _Publisher, "quick": _QuickOnes, "slow": _SlowOnes, "plain": _PlainOne}
    worker = classes[kind](url, *arguments)
    try:
        await carry_out(pipe, {**worker.commands, "end": _nothing})
    finally:
        await worker.close()


async def _nothing(_: Any) -> None:
    """Nothing is left to tell."""


async def _every(pause_s: float) -> AsyncIterator[None]:
    while True:
        await asyncio.sleep(pause_s)
        yield


def _block() -> None:
    """Work as programs do that were not written for an event loop."""
    time.sleep(BLOCKED_S)


class _Publisher:
    def __init__(self, url: str, kinds: list[int]) -> None:
        self._url = url
        self._kinds = kinds
        self._connection: Connection | None = None
        self.commands = {"open": self._open, "publish": self._publish, "flood": self._flood}

    async def _open(self, _: Any) -> None:
        self._connection = await connect(self._url, name="bench publisher")

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()

    async def _publish(self, what: tuple[int, int, float]) -> None:
        """So many messages from a number on, so many in a second."""
        assert self._connection is not None
        first, count, rate_s = what
        begun = time.monotonic()
        sent = 0
        while sent < count:
            due = min(int((time.monotonic() - begun) * rate_s) + 1, count)
            for number in range(first + sent, first + due):
                keywords = KEYWORDS[self._kinds[number]]
                await self._connection.publish(SUBJECT, payload(number), keywords=keywords)
            sent = due
            await asyncio.sleep(TICK_S)
        await self._connection.flush()

    async def _flood(self, what: tuple[int, float]) -> None:
        assert self._connection is not None
        count, rate_s = what
        padding = bytes(FLOOD_BYTES)
        begun = time.monotonic()
        sent = 0
        while sent < count:
            due = min(int((time.monotonic() - begun) * rate_s) + 1, count)
            for number in range(sent, due):
                await self._connection.publish(FLOOD_SUBJECT, payload(number, padding))
            sent = due
            await asyncio.sleep(TICK_S)
        await self._connection.flush()


class _QuickOnes:
    """Subscribers that take every message at once, each with a connection of its own."""

    def __init__(self, url: str, count: int) -> None:
        self._url = url
        self._count = count
        self._connections: list[Connection] = []
        self._delays_ms: list[float] = []
        self.commands = {"open": self._open, "begin": self._begin, "delays": self._delays}

    async def _open(self, _: Any) -> None:
        for _number in range(self._count):
            connection = await connect(self._url, name="bench quick")
            self._connections.append(connection)
            await connection.subscribe(SUBJECT, callback=self._take)

    async def close(self) -> None:
        for connection in self._connections:
            await connection.close()

    async def _take(self, message: Message) -> None:
        self._delays_ms.append(number_and_delay_ms(message.data)[1])

    async def _begin(self, _: Any) -> None:
        self._delays_ms.clear()

    async def _delays(self, expected: int) -> tuple[int, float, float]:
        """How many messages came since `begin`, and the median and 99th percentile of their delays."""
        until = time.monotonic() + LATEST_S
        async for _ in _every(TICK_S):
            if len(self._delays_ms) >= expected or time.monotonic() > until:
                break
        delays = sorted(self._delays_ms)
        if not delays:
            return 0, 0.0, 0.0
        return len(delays), delays[len(delays) // 2], delays[int(len(delays) * 0.99)]


@dataclass
class SlowAccount:
    """What one slow subscriber read, and what it was told that it did not."""

    policy: str
    read: list[int] = field(default_factory=list)
    told: Counter[str] = field(default_factory=Counter)
    """Lost messages by reason, as the notices said."""
    notices: int = 0
    came: int = 0
    twice: int = 0
    pending: int = 0
    cut_off: str = ""
    all_exact: bool = True
    """Of accounts that were added to this one."""

    @property
    def exact(self) -> bool:
        """Whether everything that came was read, or told to be lost."""
        account = len(self.read) + self.told.total() + self.pending
        return self.all_exact and self.came - self.twice == account

    def add(self, before: SlowAccount, after: SlowAccount) -> None:
        """What became of the messages that came between two accounts of the same subscriber."""
        self.read += after.read[len(before.read) :]
        self.told += after.told - before.told
        self.notices += after.notices - before.notices
        self.came += after.came - before.came
        self.twice += after.twice - before.twice
        self.all_exact = self.all_exact and before.exact and after.exact and not after.pending


class _SlowOnes:
    """Subscribers that read one message for every ten that come, or all at once; one for each policy."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._slowly = False
        self._accounts: dict[str, SlowAccount] = {}
        self._open: dict[str, tuple[Connection, Subscription, asyncio.Task[None]]] = {}
        self.commands = {"open": self._subscribe, "slowly": self._set_pace, "account": self._account}

    async def _subscribe(self, what: tuple[str, str, int]) -> None:
        subject, policy, max_pending = what
        account = self._accounts[policy] = SlowAccount(policy)

        def note(gap: Gap) -> None:
            account.notices += 1
            account.told[gap.reason] += gap.lost

        connection = await connect(self._url, name=f"bench slow {policy}")
        subscription = await connection.subscribe(
            subject, slow=policy, max_pending=max_pending, keywords=INTERESTS, on_gap=note
        )
        task = asyncio.create_task(self._read(subscription, account))
        self._open[policy] = connection, subscription, task

    async def close(self) -> None:
        for connection, _, task in self._open.values():
            task.cancel()
            await connection.close()

    async def _set_pace(self, slowly: bool) -> None:
        self._slowly = slowly

    async def _read(self, subscription: Subscription, account: SlowAccount) -> None:
        try:
            async for message in subscription:
                account.read.append(number_and_delay_ms(message.data)[0])
                if self._slowly:
                    due = subscription.messages + TENTH
                    async for _ in _every(TICK_S):
                        if not self._slowly or subscription.messages >= due:
                            break
        except SlowSubscriberError as error:
            account.cut_off = error.message

    async def _account(self, _: Any) -> dict[str, SlowAccount]:
        """When nothing more comes and all that waited has been read."""
        await self._set_pace(False)
        before = -1
        while before != (now := sum(each[1].messages for each in self._open.values())) or any(
            each[1].pending for each in self._open.values()
        ):
            before = now
            await asyncio.sleep(QUIET_S)
        for policy, (_, subscription, _task) in self._open.items():
            account = self._accounts[policy]
            account.came, account.twice = subscription.messages, subscription.duplicates
            account.pending = subscription.pending
        return self._accounts


class _PlainOne:
    """A client of nats-py whose callback blocks it: it reads its socket too slowly."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client: Any = None
        self._received = 0
        self.commands = {"open": self._open, "account": self._account}

    async def _open(self, _: Any) -> None:
        async def take(_message: Any) -> None:
            self._received += 1
            _block()

        async def quiet(_: Exception) -> None:
            """It is cut off on purpose."""

        self._client = await nats.connect(self._url, error_cb=quiet, reconnect_time_wait=0)
        await self._client.subscribe(FLOOD_SUBJECT, cb=take)
        await self._client.flush()

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()

    async def _account(self, _: Any) -> int:
        """Messages received, when no more come."""
        before = -1
        while before != self._received:
            before = self._received
            await asyncio.sleep(QUIET_S)
        return self._received
