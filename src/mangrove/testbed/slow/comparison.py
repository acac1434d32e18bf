"""Runs a slow subscriber among 99 others at one real broker, with and without it being slow, in turns."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from mangrove.broker.nats.monitoring import fetch
from mangrove.broker.nats.server import nats_server
from mangrove.host.ports import PortReservation
from mangrove.model.congestion.terms import Slow
from mangrove.testbed.slow.stream import FLOOD_SUBJECT, SUBJECT, UTILITIES, draw_kinds
from mangrove.testbed.slow.workers import SlowAccount, run_worker
from mangrove.testbed.worker_process import Worker

HOST = "127.0.0.1"
QUICK_SUBSCRIBERS = 99
RATE_MSG_S = 100.0
"""A process with 99 connections is busy for about half of the time then."""
MAX_PENDING = 20
FLOOD_MESSAGES = 3_000
FLOOD_MSG_S = 1_500.0
BROKER_PENDING = "8MB"


class Turn(msgspec.Struct, frozen=True):
    """Delays of the 99, in one turn."""

    slow: bool
    deliveries: int
    expected: int
    p50_ms: float
    p99_ms: float


class PolicyOutcome(msgspec.Struct, frozen=True):
    """What became of one subscriber's messages."""

    policy: str
    came: int
    read: int
    lost: int
    """As its notices said."""
    notices: int
    exact: bool
    useful_read: float
    """How much of the most useful messages, as many as it read at most, it did read."""
    usefulness: float
    """Sum of utilities read, as part of the most that as many messages can have."""
    cut_off: bool = False


class FloodOutcome(msgspec.Struct, frozen=True):
    """A reader of a tenth of the rate whose broker does not wait for it."""

    client: str
    sent: int
    received: int
    told: int
    """Losses that it knows of."""
    cut_off: int
    """How often the broker ended its connection."""


class SlowReport(msgspec.Struct, frozen=True):
    """Everything."""

    turns: list[Turn]
    policies: list[PolicyOutcome]
    floods: list[FloodOutcome]


@dataclass(frozen=True)
class Comparison:
    """`rounds` times a turn with and one without, in alternating order."""

    directory: Path
    seed: int
    rounds: int
    messages: int
    """In a turn."""

    async def run(self) -> SlowReport:
        """All parts, one after the other."""
        with PortReservation() as ports:
            port, http_port = ports.take(HOST), ports.take(HOST)
            config = f'listen: "{HOST}:{port}"\nhttp: "{HOST}:{http_port}"\nmax_pending: {BROKER_PENDING}\n'
            server = nats_server("server", config, self.directory)
            await server.start()
            try:
                url = f"nats://{HOST}:{port}"
                turns, slow = await self._turns(url)
                policies = [slow, *await self._policies(url)]
                floods = await self._floods(url, f"http://{HOST}:{http_port}/varz")
            finally:
                await server.stop()
        return SlowReport(turns, policies, floods)

    async def _turns(self, url: str) -> tuple[list[Turn], PolicyOutcome]:
        order = list(itertools.islice(itertools.cycle([False, True, True, False]), 2 * self.rounds))
        kinds = draw_kinds(self.seed, self.messages * (len(order) + 1))
        async with _workers(url, ("publisher", kinds), ("quick", QUICK_SUBSCRIBERS), ("slow",)) as (
            publisher,
            quick,
            slow,
        ):
            await publisher.ask("open")
            await quick.ask("open")
            await slow.ask("open", (SUBJECT, str(Slow.DROP_LEAST_USEFUL), MAX_PENDING))
            await publisher.ask("publish", (0, self.messages, RATE_MSG_S))  # everybody gets warm
            turns = []
            slowly_read = SlowAccount(str(Slow.DROP_LEAST_USEFUL))
            before = await self._account(slow)
            for position, slowly in enumerate(order, 1):
                await quick.ask("begin")
                await slow.ask("slowly", slowly)
                await publisher.ask("publish", (position * self.messages, self.messages, RATE_MSG_S))
                expected = QUICK_SUBSCRIBERS * self.messages
                deliveries, p50_ms, p99_ms = await quick.ask("delays", expected)
                turns.append(Turn(slowly, deliveries, expected, p50_ms, p99_ms))
                account = await self._account(slow)
                if slowly:
                    slowly_read.add(before, account)
                before = account
        published = [
            number
            for position, slowly in enumerate(order, 1)
            if slowly
            for number in range(position * self.messages, (position + 1) * self.messages)
        ]
        slowly_read.all_exact = slowly_read.all_exact and slowly_read.came == len(published)
        return turns, _outcome(slowly_read, published, kinds)

    async def _policies(self, url: str) -> list[PolicyOutcome]:
        kinds = draw_kinds(self.seed + 1, self.messages)
        policies = [Slow.DROP_OLDEST, Slow.LATEST_ONLY, Slow.DISCONNECT]
        async with _workers(url, ("publisher", kinds), ("slow",)) as (publisher, slow):
            await publisher.ask("open")
            for policy in policies:
                await slow.ask("open", (SUBJECT, str(policy), MAX_PENDING))
            await slow.ask("slowly", True)
            await publisher.ask("publish", (0, self.messages, 5 * RATE_MSG_S))
            accounts: dict[str, SlowAccount] = await slow.ask("account")
        published = list(range(self.messages))
        return [_outcome(each, published, kinds) for each in accounts.values()]

    async def _account(self, slow: Worker) -> SlowAccount:
        accounts: dict[str, SlowAccount] = await slow.ask("account")
        return accounts[str(Slow.DROP_LEAST_USEFUL)]

    async def _floods(self, url: str, page: str) -> list[FloodOutcome]:
        """The same flood for a plain client and for one with the SDK; the broker counts whom it cuts off."""
        before = await _slow_consumers(page)
        async with _workers(url, ("publisher", []), ("plain",)) as (publisher, plain):
            await publisher.ask("open")
            await plain.ask("open")
            await publisher.ask("flood", (FLOOD_MESSAGES, FLOOD_MSG_S))
            received: int = await plain.ask("account")
        between = await _slow_consumers(page)
        policy = str(Slow.DROP_OLDEST)
        async with _workers(url, ("publisher", []), ("slow",)) as (publisher, slow):
            await publisher.ask("open")
            await slow.ask("open", (FLOOD_SUBJECT, policy, MAX_PENDING))
            await slow.ask("slowly", True)
            await publisher.ask("flood", (FLOOD_MESSAGES, FLOOD_MSG_S))
            accounts: dict[str, SlowAccount] = await slow.ask("account")
        read, told = len(accounts[policy].read), accounts[policy].told.total()
        after = await _slow_consumers(page)
        return [
            FloodOutcome("nats-py", FLOOD_MESSAGES, received, 0, between - before),
            FloodOutcome("sdk", FLOOD_MESSAGES, read, told, after - between),
        ]


async def _slow_consumers(page: str) -> int:
    document = msgspec.json.decode(await fetch(page) or b"{}", type=_Varz)
    return document.slow_consumers


class _Varz(msgspec.Struct):
    """What the broker's page says."""

    slow_consumers: int = 0


def _outcome(account: SlowAccount, published: list[int], kinds: list[int]) -> PolicyOutcome:
    read = account.read
    utilities = sorted((UTILITIES[kinds[number]] for number in published), reverse=True)
    useful = [number for number in published if UTILITIES[kinds[number]] == 1.0]
    most = sum(utilities[: len(read)])
    return PolicyOutcome(
        policy=account.policy,
        came=account.came - account.twice,
        read=len(read),
        lost=account.told.total(),
        notices=account.notices,
        exact=account.exact,
        useful_read=len(set(useful) & set(read)) / max(min(len(useful), len(read)), 1),
        usefulness=sum(UTILITIES[kinds[number]] for number in read) / most if most else 0.0,
        cut_off=bool(account.cut_off),
    )


@contextlib.asynccontextmanager
async def _workers(url: str, *roles: tuple[object, ...]) -> AsyncIterator[list[Worker]]:
    workers: list[Worker] = []
    try:
        for kind, *arguments in roles:
            workers.append(Worker(run_worker, kind, url, *arguments))
        yield workers
    finally:
        for worker in workers:
            with contextlib.suppress(ChildProcessError, OSError):  # it is ended all the same
                await worker.ask("end", timeout_s=5.0)
            await asyncio.to_thread(worker.end)
