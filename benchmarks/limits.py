"""Limits of what clients publish: how exactly they are kept, how fairly they are shared, and what they cost.

One publisher tries fifty times what its topic's contract allows; what it is told, what arrives in its own
domain and what arrives in another is counted. Two publishers share one contract, first both with far too
much, then one of them with less than its half. The cost is the rate of the SDK, publishing and receiving,
with a limit that is never reached beside the rate without any, in turns of a few milliseconds in one
connection; the rate at which the SDK finds that nobody listens is for information.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.console import Console

import mangrove
from mangrove.broker.message_ids import identity_of
from mangrove.cli.running import run_async
from mangrove.cli.tables.table import Table, name_column, number_column
from mangrove.client.connection import Connection
from mangrove.config import parse_federation
from mangrove.testbed.local_federation import LocalFederation

LIMIT_MSG_S = 1_000.0
TRIED_MSG_S = 50_000.0
MODEST_MSG_S = 300.0
EXACT_BAR = 0.02
FAIR_BAR = 0.1
OVERHEAD_BAR = 0.05
SECONDS = 10.0
QUICK_SECONDS = 4.0
SETTLE_S = 8.0
"""So long two publishers are given to be told their shares."""
TICK_S = 0.002
HEAP = 2_000
PAIRS = 400
QUICK_PAIRS = 100
WARM_UP = 10
PAYLOAD = bytes(256)

PAIR = f"""
federation: limits
domains: {{here: {{edges: 1}}, there: {{edges: 1}}}}
links: [{{between: [here, there], delay_ms: 2}}]
topics:
  - {{match: "limited.*", rate_msg_s: {LIMIT_MSG_S:.0f}}}
"""
SINGLE = """
federation: cost
domains: {here: {edges: 0}}
topics:
  - {match: "limited.*", rate_msg_s: 1000000000, rate_bytes_s: 1000000000000}
"""


class Passed(msgspec.Struct, frozen=True):
    """Messages per second of one publisher: tried, sent as it was told, and arrived."""

    tried: float
    sent: float
    here: float
    there: float


class Cost(msgspec.Struct, frozen=True):
    """Medians over pairs of heaps of messages, one without and one with a limit, right after each other.

    `ratio` is of CPU time in the client, which bounds its rate and which other processes disturb least.
    """

    free_msg_s: float
    limited_msg_s: float
    free_cpu_us: float
    limited_cpu_us: float
    ratio: float
    rate_ratio: float
    pairs: int


def run(seed: int, quick: bool) -> dict[str, object]:
    """Everything, one after the other. The load is fixed, so the seed changes nothing."""
    del seed
    seconds = QUICK_SECONDS if quick else SECONDS
    with tempfile.TemporaryDirectory(prefix="mangrove-bench-") as directory:
        pair = run_async(_pair(Path(directory) / "pair", seconds), asyncio.new_event_loop)
        cost, unwanted = run_async(
            _cost(Path(directory) / "cost", QUICK_PAIRS if quick else PAIRS), asyncio.new_event_loop
        )
    return {
        "limit_msg_s": LIMIT_MSG_S,
        "seconds": seconds,
        "publishers": msgspec.to_builtins(pair),
        "cost": msgspec.to_builtins(cost),
        "unwanted_msg_s": unwanted,
    }


async def _pair(directory: Path, seconds: float) -> dict[str, dict[str, Passed]]:
    federation = parse_federation(PAIR, "limits").require()
    async with LocalFederation(federation, directory, ephemeral=True) as launched:
        where = launched.directory
        async with (
            mangrove.connect(domain="here", run_dir=where, name="one") as one,
            mangrove.connect(domain="here", run_dir=where, name="two") as two,
            mangrove.connect(domain="here", run_dir=where) as near,
            mangrove.connect(domain="there", run_dir=where) as far,
        ):
            arrivals = {"here": _Arrivals(), "there": _Arrivals()}
            for connection, counting in zip((near, far), arrivals.values(), strict=True):
                subscription = await connection.subscribe("limited.*", callback=counting.take)
                await subscription.ready(30)
            await _linked(one, arrivals["there"])

            async def measured(topic: str, rates: dict[str, float], settle_s: float) -> dict[str, Passed]:
                sources = {"one": one, "two": two}
                tries = [_Tries(sources[name], topic, rate) for name, rate in rates.items()]
                running = [asyncio.create_task(each.run()) for each in tries]
                try:
                    await asyncio.sleep(settle_s)
                    before = [_counts(each, topic, arrivals) for each in tries]
                    begun = asyncio.get_running_loop().time()
                    await asyncio.sleep(seconds)
                    after = [_counts(each, topic, arrivals) for each in tries]
                    span_s = asyncio.get_running_loop().time() - begun
                finally:
                    for task in running:
                        task.cancel()
                    await asyncio.gather(*running, return_exceptions=True)
                return {
                    name: Passed(*((last - first) / span_s for first, last in zip(*pair, strict=True)))
                    for name, pair in zip(rates, zip(before, after, strict=True), strict=True)
                }

            return {
                "alone": await measured("limited.alone", {"one": TRIED_MSG_S}, 0.0),
                "both greedy": await measured(
                    "limited.greedy", {"one": TRIED_MSG_S / 2, "two": TRIED_MSG_S / 2}, SETTLE_S
                ),
                "one modest": await measured(
                    "limited.modest", {"one": TRIED_MSG_S / 2, "two": MODEST_MSG_S}, SETTLE_S
                ),
            }


async def _linked(connection: Connection, there: _Arrivals) -> None:
    """Wait until the other domain can be reached: before, `ready` does not wait for it."""
    async with asyncio.timeout(30):
        while not there.counts:
            await connection.publish("limited.first", PAYLOAD)
            await asyncio.sleep(0.01)


class _Arrivals:
    """Counts messages by subject and publisher."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, bytes]] = Counter()

    async def take(self, message: mangrove.Message) -> None:
        """One more."""
        identity = identity_of(message.head) if isinstance(message.head, bytes) else None
        self.counts[message.subject, (identity or b"").partition(b".")[0]] += 1


class _Tries:
    """One publisher that tries to publish at a rate, whatever it is told."""

    def __init__(self, connection: Connection, subject: str, rate_msg_s: float) -> None:
        self._connection = connection
        self._subject = subject
        self._rate_msg_s = rate_msg_s
        self.tried = 0
        self.sent = 0

    @property
    def origin(self) -> bytes:
        """How its ids begin."""
        return self._connection.origin.encode()

    async def run(self) -> None:
        """Until cancelled. Who is late does not try to catch up by more than a tick."""
        loop = asyncio.get_running_loop()
        last, due = loop.time(), 0.0
        while True:
            await asyncio.sleep(TICK_S)
            now = loop.time()
            due = min(due + (now - last) * self._rate_msg_s, 10 * TICK_S * self._rate_msg_s + 1)
            last = now
            while due >= 1:
                due -= 1
                self.tried += 1
                if await self._connection.publish(self._subject, PAYLOAD):
                    self.sent += 1


def _counts(tries: _Tries, topic: str, arrivals: dict[str, _Arrivals]) -> tuple[int, int, int, int]:
    here, there = (each.counts[topic, tries.origin] for each in arrivals.values())
    return tries.tried, tries.sent, here, there


async def _cost(directory: Path, pairs: int) -> tuple[Cost, float | None]:
    federation = parse_federation(SINGLE, "cost").require()
    async with LocalFederation(federation, directory, ephemeral=True, agents=False) as launched:
        async with mangrove.connect(domain="here", run_dir=launched.directory) as connection:
            cost = await _pairs(connection, pairs)
        return cost, await _unwanted(launched.directory)


async def _pairs(connection: Connection, pairs: int) -> Cost:
    """One client publishes and receives a few thousand messages without a limit and as many with one."""
    spent: dict[str, list[tuple[float, float]]] = {"free.topic": [], "limited.topic": []}
    arrivals = _Expected()
    for subject in spent:
        await (await connection.subscribe(subject, callback=arrivals.take)).ready(30)
    for number in range(pairs + WARM_UP):
        for subject in sorted(spent, reverse=bool(number % 2)):
            arrivals.expect(HEAP)
            begun, begun_cpu = time.perf_counter(), time.process_time()
            for _ in range(HEAP):
                await connection.publish(subject, PAYLOAD)
            await asyncio.wait_for(arrivals.all_there.wait(), 30)
            if number >= WARM_UP:
                spent[subject].append((time.perf_counter() - begun, time.process_time() - begun_cpu))
    (free_s, free_cpu_s), (limited_s, limited_cpu_s) = (
        tuple(zip(*each, strict=True)) for each in spent.values()
    )
    return Cost(
        free_msg_s=HEAP / statistics.median(free_s),
        limited_msg_s=HEAP / statistics.median(limited_s),
        free_cpu_us=1e6 * statistics.median(free_cpu_s) / HEAP,
        limited_cpu_us=1e6 * statistics.median(limited_cpu_s) / HEAP,
        ratio=_ratio(free_cpu_s, limited_cpu_s),
        rate_ratio=_ratio(free_s, limited_s),
        pairs=pairs,
    )


def _ratio(without: Sequence[float], with_one: Sequence[float]) -> float:
    return statistics.median(free / limited for free, limited in zip(without, with_one, strict=True))


class _Expected:
    """Tells when so many messages have come."""

    def __init__(self) -> None:
        self._left = 0
        self.all_there = asyncio.Event()

    def expect(self, count: int) -> None:
        """Wait for these now."""
        self._left = count
        self.all_there.clear()

    async def take(self, _: mangrove.Message) -> None:
        """One more."""
        self._left -= 1
        if not self._left:
            self.all_there.set()


async def _unwanted(where: Path) -> float | None:
    """How many messages a second are found to be of no use; None if leave to be silent does not come."""
    async with mangrove.connect(domain="here", run_dir=where) as connection:
        loop = asyncio.get_running_loop()
        ended = loop.time() + 10.0
        while await connection.publish("nobody.listens", PAYLOAD) is not mangrove.Outcome.UNWANTED:
            if loop.time() > ended:
                return None
            await asyncio.sleep(0.01)
        begun, count = loop.time(), 0
        while (now := loop.time()) < begun + 1.0:
            for _ in range(1_000):
                count += await connection.publish("nobody.listens", PAYLOAD) is mangrove.Outcome.UNWANTED
        return count / (now - begun)


def _of(result: dict[str, object]) -> tuple[dict[str, dict[str, Passed]], Cost]:
    return (
        msgspec.convert(result["publishers"], dict[str, dict[str, Passed]]),
        msgspec.convert(result["cost"], Cost),
    )


def missed(result: dict[str, object]) -> list[str]:
    """Limits that are not kept, shares that are not fair, and a filter that costs too much."""
    publishers, cost = _of(result)
    lines = []
    alone = publishers["alone"]["one"]
    for name in ("sent", "here", "there"):
        rate = getattr(alone, name)
        if abs(rate / LIMIT_MSG_S - 1) > EXACT_BAR:
            lines.append(f"alone: {name} {rate:,.0f} msg/s, not {LIMIT_MSG_S:,.0f} ± {EXACT_BAR:.0%}")
    owed: dict[str, dict[str, float]] = {
        "both greedy": {"one": LIMIT_MSG_S / 2, "two": LIMIT_MSG_S / 2},
        "one modest": {"one": LIMIT_MSG_S - MODEST_MSG_S, "two": MODEST_MSG_S},
    }
    for case, shares in owed.items():
        for name, share in shares.items():
            rate = publishers[case][name].there
            if abs(rate / share - 1) > FAIR_BAR:
                lines.append(f"{case}: {name} has {rate:,.0f} msg/s, not {share:,.0f} ± {FAIR_BAR:.0%}")
    if cost.ratio < 1 - OVERHEAD_BAR:
        lines.append(f"the filter leaves {cost.ratio:.3f} of the SDK's rate, less than {1 - OVERHEAD_BAR}")
    if result["unwanted_msg_s"] is None:
        lines.append("a subject that nobody listens to is sent for ever")
    return lines


def render(result: dict[str, object], console: Console) -> None:
    """Two tables."""
    publishers, cost = _of(result)
    table = Table(
        f"A contract of {LIMIT_MSG_S:,.0f} messages a second, for {result['seconds']:g} s",
        name_column("publishers"),
        *map(number_column, ("tried", "sent", "here", "there")),
    )
    for case, each in publishers.items():
        table.section(case)
        for name, passed in each.items():
            table.add(f"  {name}", *(f"{rate:,.1f}" for rate in msgspec.structs.astuple(passed)))
    table.show(console)
    console.print(
        f"without a limit {cost.free_msg_s:,.0f} msg/s at {cost.free_cpu_us:.2f} µs of CPU time each, "
        f"with one {cost.limited_msg_s:,.0f} at {cost.limited_cpu_us:.2f} µs; ratio {cost.ratio:.3f} by CPU "
        f"time, {cost.rate_ratio:.3f} by rate"
    )
    unwanted = result["unwanted_msg_s"]
    console.print(
        "nobody listens: not noticed"
        if unwanted is None
        else f"nobody listens: {unwanted:,.0f} messages a second are found to be of no use"
    )
    console.print(
        f"bars: {EXACT_BAR:.0%} for one publisher, {FAIR_BAR:.0%} for shares in the other domain, "
        f"{OVERHEAD_BAR:.0%} of the rate"
    )
