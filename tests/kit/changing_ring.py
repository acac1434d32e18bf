"""A ring of three domains under load while it is changed, and the account of every message."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.kit.running import Running

from mangrove.agent.inspection import wait_for_interest
from mangrove.config import parse_federation
from mangrove.testbed.accounting import Span, figures
from mangrove.testbed.local_federation import LocalFederation
from mangrove.testbed.probe_traffic import ProbeTopic, ProbeTraffic
from mangrove.testbed.ring.scenario import head_address

RING = """
federation: changing
domains:
  a: {location: [47.61, -122.33]}
  b: {location: [39.74, -104.99]}
  c: {location: [28.54, -81.38]}
links:
  - {between: [a, b], delay_ms: 2}
  - {between: [b, c], delay_ms: 2}
  - {between: [a, c], delay_ms: 3}
topics:
  - {match: "steady.>", deadline_ms: 500, paths: 2}
  - {match: "changing.>", deadline_ms: 400}
"""
SUBJECTS = ("steady.x", "changing.x", "plain.x")
UNAFFECTED = ("steady.x", "plain.x")


async def start(*arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "mangrove.cli.main",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def mangrove(*arguments: str) -> tuple[int, str, str]:
    process = await start(*arguments)
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


@asynccontextmanager
async def under_load(directory: Path, rate: float, text: str = RING) -> AsyncIterator[Running]:
    """A federation with messages from a to c; when the block ends, all of them are accounted for."""
    federation = parse_federation(text, "file").require()
    async with LocalFederation(federation, directory, ephemeral=True) as launched:
        running = Running(launched)
        await running.links_up()
        heads = {name: head_address(launched, name, "client") for name in launched.endpoints}
        topics = [ProbeTopic(subject, rate / len(SUBJECTS), heads["c"]) for subject in SUBJECTS]
        async with ProbeTraffic(heads["a"], topics) as probes:
            await probes.subscribe()
            assert await wait_for_interest(launched.runtime(), {"c": len(SUBJECTS)})
            began = time.monotonic_ns()
            await probes.publish()
            yield running
            records = await probes.collect()
    for subject, record in records.items():
        found = figures(record, Span(began, time.monotonic_ns()), 500.0)
        assert found.sent > 0
        if subject in UNAFFECTED:
            assert (found.lost, found.duplicated, found.out_of_order) == (0, 0, 0), subject
        else:
            assert (found.lost, found.duplicated) == (0, 0), subject
