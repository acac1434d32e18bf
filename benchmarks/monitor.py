"""The live view of 2,000 topics, watched by ten against by one, and what it costs; time of the first paint.

50 sites and 200 links, which change each second. Statuses are invented beforehand, so that their making is
not counted. Live documents of all pages are watched, and the map is opened once by a real browser. Then the
load of `bench gateway` goes through two gateways, in turns with and without a feed that listens to them.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import shutil
import statistics
import time
from collections.abc import AsyncIterator, Sequence
from multiprocessing.connection import Connection
from operator import truediv
from typing import TYPE_CHECKING, Any

from mangrove.cli.running import run_async

if TYPE_CHECKING:
    from rich.console import Console

    from mangrove.host.run_directory import RunDirectory
    from mangrove.monitor.feed.snapshot import Snapshot
    from mangrove.monitor.told_event import ToldEvent
    from mangrove.testbed.pairs.gateway_pair import GatewayPair

SITES, LINKS, TOPICS = 50, 200, 2_000
FEW = (10, 30, 200)
CHROMIUM = "/usr/bin/chromium"
CORE_BAR = 0.5
PAINT_BAR_S = 3.0
WATCHERS_BAR = 3.0
WATCHED_BAR = 0.95
"""Of what gateways carry: rounds of one load differ by so much on a machine that does nothing else."""
READY_S = 60.0
TURNS = ("alone", "watched")
ROUNDS = 6
REST_S = 4.0
PERIOD_S = 1.0
BEGAN_AT = 1_000.0
SECONDS = 12.0


class InventedFeed:
    """Snapshots that were made beforehand, the next one each second."""

    def __init__(self, snapshots: Sequence[Snapshot]) -> None:
        self._snapshots = snapshots
        self._number = 0
        self._turned = asyncio.Event()

    @property
    def snapshot(self) -> Snapshot:
        """The present one; they repeat, under new versions."""
        import msgspec

        found = self._snapshots[self._number % len(self._snapshots)]
        return msgspec.structs.replace(found, version=self._number + 1, at=BEGAN_AT + self._number)

    def turn(self) -> None:
        """The next one."""
        self._number += 1
        turned, self._turned = self._turned, asyncio.Event()
        turned.set()

    async def changed(self, seen: int, timeout_s: float | None = None) -> int:
        """Wait for a version after `seen`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self._number + 1 <= seen:
                    await self._turned.wait()
        return self._number + 1

    def events(
        self, since: float | None = None, until: float | None = None, last: int = 1_000
    ) -> Sequence[ToldEvent]:
        """Nothing happens."""
        return ()

    def story(self, event_id: str) -> Sequence[ToldEvent]:
        """Nothing happens."""
        return ()


def run(seed: int, quick: bool) -> dict[str, object]:
    """Serve from a process of its own; look at it from here."""
    from mangrove.cli.optional import require_library

    require_library("nicegui")
    size = FEW if quick else (SITES, LINKS, TOPICS)
    seconds = 4.0 if quick else SECONDS
    start = multiprocessing.get_context("fork")
    here, there = start.Pipe()
    server = start.Process(target=_serve, args=(there, size, seed), daemon=True)
    server.start()
    try:
        address = here.recv()
        found = run_async(_looked_at(here, address, seconds), asyncio.new_event_loop)
    finally:
        here.send("end")
        server.join(10)
        if server.is_alive():
            server.kill()
            server.join()
    watched = run_async(_while_watched(quick), asyncio.new_event_loop)
    return {"sites": size[0], "links": size[1], "topics": size[2], "seconds": seconds, **found, **watched}


def render(result: dict[str, Any], console: Console) -> None:
    """A few lines."""
    sizes = f"{result['sites']} sites, {result['links']} links, {result['topics']:,} topics"
    console.print(f"{sizes}, a change each second:")
    for watchers, share in result["cores"].items():
        updates = result["updates_s"][watchers]
        console.print(
            f"  {watchers:>2} watchers of all pages: {share:.1%} of a core, {updates:.2f} updates/s"
        )
    console.print(f"  ratio of ten watchers to one: {result['ratio']:.2f}")
    paint = result["first_paint_s"]
    console.print(f"  first paint of the map: {'no browser here' if paint is None else f'{paint:.2f} s'}")
    rates, cpu = result["gateway_msg_s"], result["gateway_cpu_us"]
    console.print("two gateways under full load, in turns:")
    for name in rates:
        console.print(f"  {name}: {rates[name]:,.0f} msg/s, {cpu[name]:.2f} µs of both gateways a message")
    rest = result["gateway_rest_cores"]
    console.print(f"  at rest both take {rest['watched']:.2%} of a core, {rest['alone']:.2%} unwatched")
    console.print(f"  who listens takes {result['listener_cores']:.1%} of a core")
    console.print(f"  ratio of watched to alone: {result['watched_ratio']:.3f}")


def missed(result: dict[str, Any]) -> list[str]:
    """Half a core, three seconds, and not ten times as much for ten."""
    found = []
    if max(result["cores"].values()) > CORE_BAR:
        found.append(f"the monitor takes {max(result['cores'].values()):.0%} of a core")
    if result["first_paint_s"] is not None and result["first_paint_s"] > PAINT_BAR_S:
        found.append(f"the first paint takes {result['first_paint_s']:.1f} s")
    if result["ratio"] > WATCHERS_BAR:
        found.append(f"ten watchers cost {result['ratio']:.1f} times as much as one")
    if result["watched_ratio"] < WATCHED_BAR:
        found.append(
            f"gateways that are watched carry {result['watched_ratio']:.0%} of what they carry alone"
        )
    return found


# -- the process that serves -------------------------------------------------------------------------------


def _serve(pipe: Connection, size: tuple[int, int, int], seed: int) -> None:
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serving(pipe, size, seed))


async def _serving(pipe: Connection, size: tuple[int, int, int], seed: int) -> None:
    from mangrove.monitor.web.server import serve

    feed = InventedFeed(_snapshots(size, seed))

    async def turning() -> None:
        while True:
            await asyncio.sleep(PERIOD_S)
            feed.turn()

    tasks = [
        asyncio.create_task(turning()),
        asyncio.create_task(serve(feed, host="127.0.0.1", port=0, ready=pipe.send)),
    ]
    while await asyncio.to_thread(pipe.recv) != "end":
        pipe.send(time.process_time())
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _snapshots(size: tuple[int, int, int], seed: int) -> list[Snapshot]:
    from mangrove.model.endpoints import Runtime, fixed_endpoints
    from mangrove.monitor.feed.snapshot import Presence, Snapshot, TopicRate
    from mangrove.simulation.statuses import invented_federation, invented_status

    federation = invented_federation(*size, seed=seed)
    runtime = Runtime(
        federation=federation,
        domains={name: fixed_endpoints(domain) for name, domain in federation.domains.items()},
        pid=0,
    )
    presence = {name: Presence(connected=True, seen_at=0.0) for name in federation.domains}
    names = list(federation.domains)
    found = []
    for tick in range(1, 11):
        rates: dict[str, dict[str, TopicRate]] = {name: {} for name in names}
        for number, contract in enumerate(federation.topics.contracts):
            rate = TopicRate(sent=float(10 + (number + tick) % 90), delivered=50.0)
            rates[names[number % len(names)]][contract.match] = rate
        found.append(
            Snapshot(
                runtime=runtime,
                status=invented_status(federation, tick=tick, seed=seed),
                presence=presence,
                rates=rates,
            )
        )
    return found


# -- those who look ----------------------------------------------------------------------------------------

PAGES = ("map", "topics", "brokers", "story", "plans")


async def _looked_at(pipe: Connection, address: str, seconds: float) -> dict[str, object]:
    found = {watchers: await _cost(pipe, address, watchers, seconds) for watchers in (1, 10)}
    cores = {watchers: share for watchers, (share, _) in found.items()}
    return {
        "cores": cores,
        "updates_s": {watchers: updates for watchers, (_, updates) in found.items()},
        "ratio": cores[10] / max(cores[1], 1e-3),
        "first_paint_s": await _first_paint(address),
    }


async def _cost(pipe: Connection, address: str, watchers: int, seconds: float) -> tuple[float, float]:
    """Share of a core while each page has so many watchers, and updates that each gets in a second."""
    import websockets

    updates = 0

    async def watch(page: str) -> None:
        nonlocal updates
        url = f"ws{address.removeprefix('http')}/live?page={page}"
        async with websockets.connect(url, max_size=None, compression=None) as socket:
            async for _ in socket:
                updates += page == "map"

    watching = [asyncio.create_task(watch(page)) for page in PAGES for _ in range(watchers)]
    try:
        await asyncio.sleep(2.0)
        before, seen, began_s = await _spent(pipe), updates, time.perf_counter()
        await asyncio.sleep(seconds)
        spent_s, took_s = await _spent(pipe) - before, time.perf_counter() - began_s
        return spent_s / took_s, (updates - seen) / watchers / took_s
    finally:
        for task in watching:
            task.cancel()
        await asyncio.gather(*watching, return_exceptions=True)


async def _spent(pipe: Connection) -> float:
    pipe.send("spent")
    return float(await asyncio.to_thread(pipe.recv))


async def _first_paint(address: str) -> float | None:
    """From the request of a browser that was never here to a map with land and links."""
    from importlib.util import find_spec

    if find_spec("playwright") is None or shutil.which(CHROMIUM) is None:
        return None
    from playwright.async_api import async_playwright

    arguments = [
        *("--no-sandbox", "--disable-gpu", "--disable-background-networking"),
        *("--disable-component-update", "--disable-sync", "--no-first-run"),
    ]
    async with async_playwright() as player:
        browser = await player.chromium.launch(executable_path=CHROMIUM, args=arguments)
        try:
            page = await (await browser.new_context(viewport={"width": 1440, "height": 900})).new_page()
            await page.goto("about:blank")
            began_s = time.perf_counter()
            await page.goto(address)
            await page.wait_for_selector(".link.good", state="attached")
            await page.wait_for_selector(".land path", state="attached")
            return time.perf_counter() - began_s
        finally:
            await browser.close()


# -- a federation that is watched --------------------------------------------------------------------------


async def _while_watched(quick: bool) -> dict[str, object]:
    """Messages in a second through two gateways, and what these spend on one, in turns: alone, watched."""
    import tempfile
    from pathlib import Path

    from mangrove.host.ports import PortReservation
    from mangrove.host.run_directory import RunDirectory
    from mangrove.host.runtime_file import lock_directory, write_runtime
    from mangrove.testbed.pairs.gateway_pair import gateway_pair

    with tempfile.TemporaryDirectory(prefix="mangrove-bench-") as place, PortReservation() as ports:
        run = RunDirectory(Path(place))
        with lock_directory(run):
            async with gateway_pair(run.path, ports, managed=True) as pair:
                write_runtime(run, pair.runtime())
                return await _in_turns(pair, run, quick)


async def _in_turns(pair: GatewayPair, run: RunDirectory, quick: bool) -> dict[str, object]:
    from mangrove.testbed.calibration_load import cpu_seconds
    from mangrove.testbed.load import Load, run_between_accounts

    load = Load(messages=200_000 if quick else 1_000_000)
    gateways = [pid for name, pid in pair.pids.items() if name.startswith("gateway")]

    def spent_s() -> float:
        return sum(map(cpu_seconds, gateways))

    at_rest: dict[str, list[float]] = {name: [] for name in TURNS}
    rates: dict[str, list[float]] = {name: [] for name in TURNS}
    spent_us: dict[str, list[float]] = {name: [] for name in TURNS}
    watching: list[float] = []
    await asyncio.to_thread(run_between_accounts, "mangrove", pair.clients, load)  # everything is warm
    for number in range(2 if quick else ROUNDS):
        for name in TURNS if number % 2 else reversed(TURNS):
            async with _listening(run) if name == "watched" else _unheard() as watcher:
                before = spent_s()
                await asyncio.sleep(REST_S)
                at_rest[name].append((spent_s() - before) / REST_S)
                before, began_s = spent_s(), time.perf_counter()
                watched_s = 0.0 if watcher is None else cpu_seconds(watcher)
                outcome = await asyncio.to_thread(run_between_accounts, "mangrove", pair.clients, load)
                spent = spent_s() - before
                if watcher is not None:
                    took_s = time.perf_counter() - began_s
                    watching.append((cpu_seconds(watcher) - watched_s) / took_s)
            rates[name].append(outcome.rate_msg_s)
            spent_us[name].append(1e6 * spent / load.messages)
    medians = {name: statistics.median(found) for name, found in rates.items()}
    return {
        "gateway_msg_s": medians,
        "gateway_rounds_msg_s": rates,
        "listener_cores": statistics.median(watching),
        "gateway_cpu_us": {name: statistics.median(found) for name, found in spent_us.items()},
        "gateway_rounds_cpu_us": spent_us,
        # What telling takes of a core, for both gateways: at rest nothing else hides it.
        "gateway_rest_cores": {name: statistics.median(found) for name, found in at_rest.items()},
        # Round by round: what disturbs the machine for a while disturbs both of a round.
        "watched_ratio": statistics.median(map(truediv, rates["watched"], rates["alone"])),
    }


@contextlib.asynccontextmanager
async def _unheard() -> AsyncIterator[None]:
    """Nobody listens, nor is anybody still spoken to who did."""
    from mangrove.model.stream.messages import LEASE_S

    await asyncio.sleep(LEASE_S + PERIOD_S)
    yield


@contextlib.asynccontextmanager
async def _listening(run: RunDirectory) -> AsyncIterator[int]:
    """A process that hears both gateways as a monitor does; it ends with the block. Its number."""
    import re
    import sys

    from mangrove.broker.nats.monitoring import fetch
    from mangrove.host.process import ManagedProcess

    argv = [sys.executable, "-m", "mangrove.cli.main", "metrics", "--port", "0", "--run-dir", str(run.path)]
    process = ManagedProcess("metrics", argv, log_path=run.log("metrics"), ready_text="metrics at")
    await process.start()
    try:
        told = re.findall(r"metrics at (http://\S+)/metrics", run.log("metrics").read_text())
        async with asyncio.timeout(READY_S):
            while True:
                if await fetch(f"{told[-1]}/readyz") is not None:
                    break
                await asyncio.sleep(0.1)
        assert process.pid is not None
        yield process.pid
    finally:
        await process.stop()
