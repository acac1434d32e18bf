"""A federation under random faults for minutes: it heals every time, and never delivers anything twice."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections import Counter
from pathlib import Path

import psutil
import pytest
from tests.kit.waiting import eventually

import mangrove
from mangrove.agent.inspection import inspect
from mangrove.config import parse_federation
from mangrove.errors import MangroveError
from mangrove.testbed.local_federation import LocalFederation

RING = """
federation: ring
domains: {a: {edges: 1}, b: {edges: 1}, c: {edges: 1}, d: {edges: 1}}
links:
  - {between: [a, b], delay_ms: 3, jitter_ms: 1}
  - {between: [b, c], delay_ms: 3, loss_ratio: 0.01}
  - {between: [c, d], delay_ms: 3, bandwidth_mbps: 100}
  - {between: [d, a], delay_ms: 3}
"""
FAULTS = 60
SEED = 20260


@pytest.mark.soak
async def test_random_faults_heal(tmp_path: Path) -> None:
    print(f"seed {SEED}")  # noqa: T201
    chance = random.Random(SEED)
    federation = parse_federation(RING, "ring").require()
    arrivals: Counter[tuple[str, str | None]] = Counter()
    async with LocalFederation(federation, tmp_path / "ring", ephemeral=True, seed=SEED) as launched:
        connections = {
            name: await mangrove.connect(run_dir=launched.directory, domain=name)
            for name in federation.domains
        }
        subscriptions = [
            await subscribe(connection, name, arrivals) for name, connection in connections.items()
        ]
        publishing = asyncio.create_task(publish_everywhere(connections))
        try:
            for _ in range(FAULTS):
                await disturb(launched, chance)
                await asyncio.sleep(chance.uniform(0.1, 1.5))
        finally:
            publishing.cancel()

        async def healthy() -> bool:
            return (await inspect(launched.runtime())).healthy

        await eventually(healthy, "the federation should heal", timeout_s=60)
        before = dict(arrivals)

        async def all_hear_all() -> bool:
            for name, connection in connections.items():
                await connection.publish(f"soak.{name}", b"final")
            await asyncio.sleep(0.5)  # then ask again: a domain may not want it yet
            heard = {receiver for receiver, identity in arrivals if (receiver, identity) not in before}
            return heard == set(connections)

        await eventually(all_hear_all, "every domain should hear again", timeout_s=60)
        for connection in connections.values():
            await connection.close()
        assert len(arrivals) > 1000, "there was traffic"
        twice = {key: count for key, count in arrivals.items() if count > 1}
        assert not twice
        assert sum(subscription.duplicates for subscription in subscriptions) == 0, (
            "not even for the SDK to see"
        )
        children = psutil.Process().children(recursive=True)
        assert len(children) == len(launched.processes()), "one process each, no leftovers of restarts"


async def subscribe(
    connection: mangrove.Connection, name: str, arrivals: Counter[tuple[str, str | None]]
) -> mangrove.Subscription:
    async def take(message: mangrove.Message) -> None:
        arrivals[name, message.id] += 1

    return await connection.subscribe("soak.>", callback=take)


async def publish_everywhere(connections: dict[str, mangrove.Connection]) -> None:
    while True:
        for name, connection in connections.items():
            try:
                await connection.publish(f"soak.{name}", b"x" * 100)
            except MangroveError:
                continue  # its broker is being restarted
        await asyncio.sleep(0.01)


async def disturb(launched: LocalFederation, chance: random.Random) -> None:
    """Kill, freeze for a moment, slow down or black-hole something."""
    link = chance.choice(launched.federation.links)
    processes = [process for process in launched.processes() if process.name != "wan" and process.pid]
    process = chance.choice(processes)
    pid = process.pid
    assert pid is not None
    match chance.randrange(4):
        case 0:
            os.kill(pid, signal.SIGKILL)
        case 1:
            os.kill(pid, signal.SIGSTOP)
            await asyncio.sleep(chance.uniform(0.05, 0.8))
            os.kill(pid, signal.SIGCONT)
        case 2:
            await launched.reshape(*link.between, black_hole=True)
            await asyncio.sleep(chance.uniform(0.05, 1.0))
            await launched.reshape(*link.between, black_hole=False)
        case _:
            await launched.reshape(*link.between, delay_ms=chance.uniform(0, 100))
