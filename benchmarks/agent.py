"""An agent at rest beside its brokers: what it costs, as a share of one core and in messages a second.

A domain with a head and four edges stands idle, its agent watching all brokers; then the same with 200
registered subscribers that get nothing. Measured over the same time: processor time of the agent's process
over that of the clock, and of the brokers' own (for looking at them), and how many messages and bytes a look
costs each broker.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

import psutil
from rich.console import Console

from mangrove.agent.launcher import Launcher
from mangrove.cli.running import run_async
from mangrove.cli.tables.table import Table, name_column, number_column
from mangrove.client import connect
from mangrove.testbed.surge.workload import HOME, draw_plan, federation_of

CLIENTS = 200
SECONDS, QUICK_SECONDS = 30.0, 10.0
SETTLE_S = 5.0
CPU_BAR = 0.02
MESSAGES_BAR = 1.2
"""Messages a second and broker: one, and what a look now and then costs besides."""


def run(seed: int, quick: bool) -> dict[str, object]:
    """Both states, one after the other, in one federation."""
    with tempfile.TemporaryDirectory(prefix="mangrove-bench-") as directory:
        return run_async(
            _run(Path(directory), seed, QUICK_SECONDS if quick else SECONDS), asyncio.new_event_loop
        )


async def _run(directory: Path, seed: int, seconds: float) -> dict[str, object]:
    federation = federation_of(draw_plan(seed=seed))
    async with AsyncExitStack() as stack:
        launched = await stack.enter_async_context(Launcher(federation, directory, ephemeral=True))
        await asyncio.sleep(SETTLE_S)
        states = {"no clients": await _measured(launched, seconds)}
        for number in range(CLIENTS):
            connection = await stack.enter_async_context(
                connect(run_dir=directory, domain=HOME, name=f"idle-{number}")
            )
            await connection.subscribe(f"surge.{number % 100:03d}")
        await asyncio.sleep(SETTLE_S)
        states[f"{CLIENTS} idle subscribers"] = await _measured(launched, seconds)
    return {"seconds": seconds, "states": states}


async def _measured(launched: Launcher, seconds: float) -> dict[str, float]:
    site = launched.sites[HOME]
    assert site.agent is not None
    agent = psutil.Process(site.agent.pid)
    brokers = [psutil.Process(process.pid) for name, process in site.brokers.items() if "edge" in name]
    before = _cpu_s(agent), sum(map(_cpu_s, brokers))
    messages = await _messages_to_agents(launched)
    start = time.monotonic()
    await asyncio.sleep(seconds)
    elapsed = time.monotonic() - start
    sent = await _messages_to_agents(launched) - messages
    return {
        "agent_core_share": (_cpu_s(agent) - before[0]) / elapsed,
        "edges_core_share": (sum(map(_cpu_s, brokers)) - before[1]) / elapsed / len(brokers),
        "agent_memory_mb": agent.memory_info().rss / 1e6,
        "looks_per_broker_s": sent / elapsed / len(brokers),
    }


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


async def _messages_to_agents(launched: Launcher) -> int:
    """Requests that the edges' system accounts have taken from the agent so far."""
    from mangrove.broker.nats.monitoring import fetch

    total = 0
    for edge in launched.endpoints[HOME].edges:
        import msgspec

        page = await fetch(f"{edge.monitor_url}/connz?acc=$SYS")
        connections = msgspec.json.decode(page or b"{}").get("connections", [])
        total += sum(each["in_msgs"] for each in connections)
    return total


def render(result: dict[str, object], console: Console) -> None:
    """Shares of a core, and messages."""
    table = Table(
        f"An agent at rest, over {result['seconds']} s",
        name_column(""),
        *map(number_column, ("agent, of a core", "each edge", "agent MB", "looks/s, broker")),
    )
    states = result["states"]
    assert isinstance(states, dict)
    for name, state in states.items():
        table.add(
            name,
            f"{state['agent_core_share']:.2%}",
            f"{state['edges_core_share']:.2%}",
            f"{state['agent_memory_mb']:.0f}",
            f"{state['looks_per_broker_s']:.2f}",
        )
    table.show(console)


def missed(result: dict[str, object]) -> list[str]:
    """The bars."""
    states = result["states"]
    assert isinstance(states, dict)
    lines = []
    for name, state in states.items():
        if state["agent_core_share"] >= CPU_BAR:
            lines.append(
                f"{name}: the agent uses {state['agent_core_share']:.2%} of a core (bar {CPU_BAR:.0%})"
            )
        if state["looks_per_broker_s"] > MESSAGES_BAR:
            lines.append(f"{name}: {state['looks_per_broker_s']:.2f} messages a second and broker")
    return lines
