"""How soon an agent notices that a broker has died, and how often it is wrong while all are well.

One domain with a head and three edges. First nothing dies: the agent's probes are counted while the domain is
idle, while its edges are flooded with messages, and while busy loops take all processors. Then an edge dies
again and again, by SIGKILL without being started anew, and by SIGSTOP: from the signal to the agent's
verdict, and to the moment at which the directory does without the broker.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from rich.console import Console

from mangrove.agent.launcher import Launcher
from mangrove.agent.management import ManagementConnection
from mangrove.cli.running import run_async
from mangrove.cli.tables.table import Table, name_column, number_column
from mangrove.client import connect
from mangrove.config import parse_federation
from mangrove.control.failures.department import BOUND_S, DETECTION_S
from mangrove.model.agents.directory import DirectoryQuestion
from mangrove.model.agents.failures import FailureStatus

SITE = """
federation: detection
domains: {here: {edges: [{capacity: 100000}, {capacity: 100000}, {capacity: 100000}]}}
"""
DOMAIN, TOPIC = "here", "bench.detection"
SECONDS, QUICK_SECONDS = 60.0, 10.0
ROUNDS, QUICK_ROUNDS = 10, 2
LOOK_S = 0.01
WITHIN_S = 30.0
SLACK_S = 0.2
"""For looking at it, and for a machine that has other things to do."""
FLOOD = """
import socket, sys, time
line = b"PUB bench.flood 1024\\r\\n" + bytes(1024) + b"\\r\\n"
until = time.monotonic() + float(sys.argv[2])
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as server:
    server.sendall(b"CONNECT {\\"verbose\\":false,\\"name\\":\\"flood\\"}\\r\\n")
    while time.monotonic() < until:
        server.sendall(line * 64)
"""
BUSY = "import sys, time\nuntil = time.monotonic() + float(sys.argv[1])\nwhile time.monotonic() < until: pass"
IDLE, FLOODED, STARVED = "idle", "edges flooded", "processors taken"
KILLED, FROZEN = "SIGKILL", "SIGSTOP"


def run(seed: int, quick: bool) -> dict[str, object]:
    """All in one federation; nothing here is drawn, the seed is not used."""
    with tempfile.TemporaryDirectory(prefix="mangrove-bench-") as directory:
        seconds, rounds = (QUICK_SECONDS, QUICK_ROUNDS) if quick else (SECONDS, ROUNDS)
        return run_async(_run(Path(directory), seconds, rounds), asyncio.new_event_loop)


async def _run(directory: Path, seconds: float, rounds: int) -> dict[str, object]:
    federation = parse_federation(SITE, "detection").require()
    async with (
        Launcher(federation, directory, ephemeral=True) as launched,
        ManagementConnection(launched.endpoints[DOMAIN]) as management,
        connect(run_dir=directory, domain=DOMAIN) as client,
    ):
        bench = _Bench(launched, management)
        await client.subscribe(TOPIC)
        await asyncio.sleep(5.0)
        ports = [edge.client_port for edge in launched.endpoints[DOMAIN].edges]
        busy = 2 * (os.cpu_count() or 1)
        healthy = {
            IDLE: await bench.healthy(seconds, []),
            FLOODED: await bench.healthy(seconds, [(FLOOD, f"{port}") for port in ports]),
            STARVED: await bench.healthy(seconds, [(BUSY,)] * busy),
        }
        await asyncio.sleep(3.0)
        killed = await bench.deaths(rounds, frozen=False)
        deaths = {KILLED: killed, FROZEN: await bench.deaths(rounds, frozen=True)}
    return {"seconds": seconds, "rounds": rounds, "busy_loops": busy, "healthy": healthy, "deaths": deaths}


class _Bench:
    def __init__(self, launched: Launcher, management: ManagementConnection) -> None:
        self._processes = launched.sites[DOMAIN].brokers
        self._management = management

    async def _failures(self) -> FailureStatus:
        status = await self._management.agent_status()
        return FailureStatus() if status is None else status.failures

    async def _edges(self) -> tuple[str, ...]:
        answer = await self._management.directory(DirectoryQuestion(topic=TOPIC))
        topics = () if answer is None else answer.topics
        return next((each.record.edges for each in topics if each.record is not None), ())

    async def healthy(self, seconds: float, loads: list[tuple[str, ...]]) -> dict[str, float]:
        """What the detectors say of brokers that are well."""
        before = await self._failures()
        async with _children(loads, seconds):
            await asyncio.sleep(seconds)
            after = await self._failures()
        hours = seconds * len([each for each in self._processes if "management" not in each]) / 3600
        return {
            "missed_probes_an_hour": (after.missed_probes - before.missed_probes) / hours,
            "uncounted_probes_an_hour": (after.uncounted_probes - before.uncounted_probes) / hours,
            "false_verdicts": after.verdicts - before.verdicts,
        }

    async def deaths(self, rounds: int, *, frozen: bool) -> dict[str, list[float]]:
        """Seconds from the signal to the verdict, and to a directory without the broker."""
        verdicts, replaced = [], []
        for _ in range(rounds):
            edge = (await self._edges())[0]
            process = self._processes[edge]
            pid = process.pid
            assert pid is not None
            began = time.monotonic()
            if frozen:
                os.kill(pid, signal.SIGSTOP)
            else:
                await process.kill()

            async def found_dead(edge: str = edge) -> bool:
                found = (await self._failures()).brokers
                return any(each.broker == edge and each.health == "failed" for each in found)

            async def replaced_by(edge: str = edge) -> bool:
                return edge not in await self._edges()

            verdicts.append(await _when(found_dead) - began)
            replaced.append(await _when(replaced_by) - began)
            if frozen:
                with contextlib.suppress(ProcessLookupError):  # its supervisor has started it anew
                    os.kill(pid, signal.SIGCONT)
            else:
                await process.start()
            await _when(self._all_alive)
        return {"verdict_s": verdicts, "directory_s": replaced}

    async def _all_alive(self) -> bool:
        return not (await self._failures()).brokers


async def _when(condition: Callable[[], Awaitable[bool]]) -> float:
    async with asyncio.timeout(WITHIN_S):
        while True:
            if await condition():
                return time.monotonic()
            await asyncio.sleep(LOOK_S)


@asynccontextmanager
async def _children(loads: list[tuple[str, ...]], seconds: float) -> AsyncIterator[None]:
    processes = [
        await asyncio.create_subprocess_exec(sys.executable, "-c", *load, f"{seconds}") for load in loads
    ]
    try:
        yield
    finally:
        for process in processes:
            if process.returncode is None:
                process.kill()
            await process.wait()


def render(result: dict[str, object], console: Console) -> None:
    """False alarms, and times of detection."""
    healthy, deaths = result["healthy"], result["deaths"]
    assert isinstance(healthy, dict)
    assert isinstance(deaths, dict)
    table = Table(
        f"Brokers that are well, {result['seconds']} s each, by broker and hour",
        name_column(""),
        *map(number_column, ("missed probes", "not counted", "false verdicts in all")),
    )
    for name, found in healthy.items():
        table.add(
            name,
            f"{found['missed_probes_an_hour']:.1f}",
            f"{found['uncounted_probes_an_hour']:.1f}",
            f"{found['false_verdicts']}",
        )
    table.show(console)
    table = Table(
        f"Brokers that die, {result['rounds']} times each",
        name_column(""),
        *map(number_column, ("verdict, ms (median)", "most", "directory, ms (median)", "most")),
    )
    for name, found in deaths.items():
        figures = [
            f"{1000 * of(found[which]):.0f}"
            for which in ("verdict_s", "directory_s")
            for of in (statistics.median, max)
        ]
        table.add(name, *figures)
    table.show(console)


def missed(result: dict[str, object]) -> list[str]:
    """The bars: nobody is found dead who lives, and no record names a dead broker beyond the bound."""
    healthy, deaths = result["healthy"], result["deaths"]
    assert isinstance(healthy, dict)
    assert isinstance(deaths, dict)
    lines = [
        f"{name}: {found['false_verdicts']} brokers were found dead that lived"
        for name, found in healthy.items()
        if found["false_verdicts"]
    ]
    for name, found in deaths.items():
        bars = {"verdict_s": DETECTION_S + SLACK_S, "directory_s": BOUND_S + SLACK_S}
        lines += [
            f"{name}: {which} is {max(found[which]):.2f} at most (bar {bar:.1f})"
            for which, bar in bars.items()
            if max(found[which]) > bar
        ]
    return lines
