"""A failover of real gateways, recorded and replayed in another process: every decision must be the same."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import mangrove
from mangrove.agent.inspection import wait_for_interest
from mangrove.config import parse_federation
from mangrove.testbed.local_federation import LocalFederation

RING = """
federation: ring
domains:
  a: {}
  b: {}
  c: {}
links:
  - {between: [a, b], delay_ms: 5}
  - {between: [b, c], delay_ms: 5}
  - {between: [a, c], delay_ms: 5}
topics:
  - {match: "twice.>", paths: 2, deadline_ms: 100}
"""
MESSAGES = 200


async def test_a_recorded_failover_replays_with_identical_instructions(tmp_path: Path) -> None:
    federation = parse_federation(RING, "ring").require()
    async with LocalFederation(federation, tmp_path, ephemeral=True, record_stimuli=True) as launched:
        urls = {name: each.head.client_url for name, each in launched.endpoints.items()}
        async with mangrove.connect(urls["a"]) as near, mangrove.connect(urls["c"]) as far:
            subscriptions = [await far.subscribe(subject) for subject in ("twice.x", "once.x")]
            assert await wait_for_interest(launched.runtime(), {"c": 2})
            for number in range(MESSAGES):
                for subject in ("twice.x", "once.x"):
                    await near.publish(subject, b"%d" % number)
                if number == MESSAGES // 4:
                    await launched.reshape("a", "c", black_hole=True)
                await asyncio.sleep(0.01)
            for subscription in subscriptions:
                got = [int((await subscription.next(timeout=10)).data) for _ in range(MESSAGES)]
                assert sorted(got) == list(range(MESSAGES))
    for domain in federation.domains:
        (result,) = await replayed(launched.run.stimuli_of(domain))
        assert result["identical"], result["differences"]
        assert result["stimuli"]["TimerServed"] > 10
        kinds = {event["kind"] for event in result["events"]}
        assert "ColourChanged" in kinds
    story = [event for event in result["events"] if event["kind"] == "ColourChanged"]
    # On a busy machine other links may be thought to have failed as well.
    assert {event["cause"].partition("-")[0] for event in story if event["cause"]} & {"a", "c"}


async def replayed(path: Path) -> list[dict[str, Any]]:
    """What `mangrove replay` says, in a process whose strings hash otherwise."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "mangrove.cli.main", "replay", str(path), "--json"),
        env={**os.environ, "PYTHONHASHSEED": "7"},
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    found: list[dict[str, Any]] = json.loads(out)
    return found
