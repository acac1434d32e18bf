"""Traffic for demonstrations: streams of messages between domains, and an honest account of what arrived."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from mangrove.client import Connection, Message, Subscription, connect
from mangrove.testbed.awake_time import AwakeTime

PAYLOAD = b"\x00" * 200
SETTLE_S = 5.0


@dataclass(frozen=True, slots=True)
class Stream:
    """Messages on one topic, from one domain to some others."""

    topic: str
    publisher: str
    subscribers: tuple[str, ...]
    rate_msg_s: float
    deadline_ms: float | None = None


@dataclass(slots=True)
class Account:
    """What became of the messages of a stream; each is expected once at every subscriber."""

    stream: Stream
    sent: int = 0
    arrivals: dict[str, Counter[str]] = field(default_factory=dict)
    in_time: int = 0
    latencies_s: list[float] = field(default_factory=list)
    subscriptions: list[Subscription] = field(default_factory=list)
    _last_arrival_s: float = 0.0
    _longest_gap_s: float = 0.0

    @property
    def expected(self) -> int:
        """Deliveries that are owed."""
        return self.sent * len(self.stream.subscribers)

    @property
    def delivered(self) -> int:
        """Different messages that arrived, over all subscribers."""
        return sum(len(ids) for ids in self.arrivals.values())

    @property
    def duplicated(self) -> int:
        """Arrivals of a message that its subscriber had already, those that the SDK left out included."""
        repeated = sum(ids.total() - len(ids) for ids in self.arrivals.values())
        return repeated + sum(subscription.duplicates for subscription in self.subscriptions)

    def restart_gap(self, awake_s: float) -> None:
        """Look for the longest silence from now on."""
        self._last_arrival_s, self._longest_gap_s = awake_s, 0.0

    def longest_gap_s(self, awake_s: float) -> float:
        """The longest time without an arrival so far, at any of the subscribers taken together."""
        return max(self._longest_gap_s, awake_s - self._last_arrival_s)

    def arrived(self, subscriber: str, message: Message, now_s: float, awake_s: float) -> None:
        """Book one arrival, at a time of day and at a time of the clock that leaves out what was held up."""
        self._longest_gap_s = max(self._longest_gap_s, awake_s - self._last_arrival_s)
        self._last_arrival_s = awake_s
        ids = self.arrivals.setdefault(subscriber, Counter())
        ids[message.id or ""] += 1
        if ids[message.id or ""] > 1 or message.published_at is None:
            return
        latency_s = now_s - message.published_at
        self.latencies_s.append(latency_s)
        if self.stream.deadline_ms is None or latency_s * 1000 <= self.stream.deadline_ms:
            self.in_time += 1

    def report(self) -> StreamReport:
        """The figures."""
        ordered = sorted(self.latencies_s)
        return StreamReport(
            topic=self.stream.topic,
            publisher=self.stream.publisher,
            subscribers=self.stream.subscribers,
            deadline_ms=self.stream.deadline_ms,
            sent=self.sent,
            delivered=self.delivered,
            in_time=self.in_time,
            lost=self.expected - self.delivered,
            duplicated=self.duplicated,
            p50_ms=1000 * _quantile(ordered, 0.50),
            p99_ms=1000 * _quantile(ordered, 0.99),
        )


class StreamReport(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one stream. `delivered` counts each subscriber."""

    topic: str
    publisher: str
    subscribers: tuple[str, ...]
    deadline_ms: float | None
    sent: int
    delivered: int
    in_time: int
    lost: int
    duplicated: int
    p50_ms: float
    p99_ms: float


def _quantile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


class Traffic:
    """Runs streams through a federation and keeps their accounts."""

    def __init__(self, streams: tuple[Stream, ...], run_dir: Path) -> None:
        self.accounts = [Account(stream) for stream in streams]
        self._run_dir = run_dir
        self._connections: dict[str, Connection] = {}
        self._awake: AwakeTime | None = None
        self._beating: asyncio.Task[None] | None = None

    def awake_s(self) -> float:
        """Time of a clock that stands still while this process is held up."""
        assert self._awake is not None, "the traffic is open"
        return self._awake.at(asyncio.get_running_loop().time())

    @property
    def held_up_s(self) -> float:
        """How long this process was held up since the traffic was opened, by others or by itself."""
        return self._awake.held_up_s if self._awake is not None else 0.0

    def wanted(self) -> dict[str, int]:
        """How many different topics each domain subscribes to."""
        topics: dict[str, set[str]] = {}
        for account in self.accounts:
            for domain in account.stream.subscribers:
                topics.setdefault(domain, set()).add(account.stream.topic)
        return {domain: len(subjects) for domain, subjects in topics.items()}

    async def open(self) -> None:
        """Connect to all domains concerned and subscribe."""
        self._awake = AwakeTime(asyncio.get_running_loop().time())
        self._beating = asyncio.create_task(self._awake.beating())
        for account in self.accounts:
            stream = account.stream
            for domain in (stream.publisher, *stream.subscribers):
                if domain not in self._connections:
                    self._connections[domain] = await connect(run_dir=self._run_dir, domain=domain)
            for domain in stream.subscribers:
                await self._subscribe(account, domain)

    async def _subscribe(self, account: Account, domain: str) -> None:
        async def arrived(message: Message) -> None:
            account.arrived(domain, message, time.time(), self.awake_s())

        subscription = await self._connections[domain].subscribe(account.stream.topic, callback=arrived)
        account.subscriptions.append(subscription)

    async def run(self, seconds: float) -> None:
        """Publish for a time, then wait until everything owed has arrived or nothing comes any more."""
        async with asyncio.TaskGroup() as tasks:
            for account in self.accounts:
                tasks.create_task(self._publish(account, seconds))
        await self.settle()

    async def settle(self) -> None:
        """Wait until everything owed has arrived or nothing comes any more."""
        loop = asyncio.get_running_loop()
        last_change, last_count = loop.time(), -1
        while loop.time() - last_change < SETTLE_S:
            count = sum(account.delivered for account in self.accounts)
            if count != last_count:
                last_change, last_count = loop.time(), count
            if all(account.delivered >= account.expected for account in self.accounts):
                await asyncio.sleep(0.5)  # time for a duplicate to show up
                return
            await asyncio.sleep(0.05)

    async def _publish(self, account: Account, seconds: float) -> None:
        stream = account.stream
        connection = self._connections[stream.publisher]
        loop = asyncio.get_running_loop()
        start = loop.time()
        total = int(seconds * stream.rate_msg_s)
        while account.sent < total:
            due = min(total, int((loop.time() - start) * stream.rate_msg_s) + 1)
            while account.sent < due:
                await connection.publish(stream.topic, PAYLOAD)
                account.sent += 1
            await asyncio.sleep(max(0.0, start + account.sent / stream.rate_msg_s - loop.time()))

    async def close(self) -> None:
        """Disconnect."""
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.gather(self._beating, return_exceptions=True)
        for connection in self._connections.values():
            await connection.close()
