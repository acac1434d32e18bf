"""A site is recorded, profiled by Spark, planned anew and rearranged, all while it carries its load."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from mangrove.agent.management import ManagementConnection
from mangrove.agent.recording import Recording
from mangrove.client import Connection, Message, connect
from mangrove.config import load_federation
from mangrove.errors import MangroveError
from mangrove.model.telemetry import BROKER_SAMPLES
from mangrove.testbed.local_federation import LocalFederation
from mangrove.testbed.plans.workload import GROUPS, Account, SurgingLoad, capacity_msg_s, topics

log = logging.getLogger(__name__)

DOMAIN = "here"
WARM_UP_S = 4.0
READY_S = 30.0
COMMAND_S = 240.0


class EdgeFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One edge in one phase: the share of seconds beyond its capacity, predicted and measured."""

    broker: str
    mean_msg_s: float
    deviation_msg_s: float
    predicted: float
    measured: float
    seconds: int


class LoopReport(msgspec.Struct, frozen=True, kw_only=True):
    """The whole loop."""

    capacity_msg_s: float
    before: tuple[EdgeFigures, ...]
    after: tuple[EdgeFigures, ...]
    moved_topics: int
    moved_subscriptions: int
    apply_s: float
    account: Account


class PlanLoop:
    """Runs the loop once; every step is the command that an operator would give."""

    def __init__(
        self, directory: Path, *, seed: int, seconds: float, progress: Callable[[str], None] = log.info
    ) -> None:
        """`seconds` are recorded and measured before, and measured after."""
        self._directory = directory
        self._seed = seed
        self._seconds = seconds
        self._progress = progress

    async def run(self) -> LoopReport:
        """Record, profile, allocate, apply, and record again."""
        path = self._directory.joinpath("site.yaml")
        path.write_text(_federation_file(), encoding="utf-8")
        run_dir = self._directory.joinpath("run")
        async with (
            LocalFederation(load_federation(path), run_dir, ephemeral=True) as launched,
            ManagementConnection(launched.endpoints[DOMAIN]) as management,
        ):
            await _until(lambda: _leads(management), "no agent leads")
            url = launched.endpoints[DOMAIN].head.client_url
            async with connect(url) as subscriber, connect(url) as publisher:
                load = SurgingLoad(publisher.publish, self._seed)
                await _subscribe(subscriber, load)
                publishing = asyncio.create_task(load.run())
                try:
                    return await self._loop(path, run_dir, launched, load, publishing)
                finally:
                    load.running = False
                    await asyncio.gather(publishing, return_exceptions=True)

    async def _loop(
        self,
        path: Path,
        run_dir: Path,
        launched: LocalFederation,
        load: SurgingLoad,
        publishing: asyncio.Task[None],
    ) -> LoopReport:
        self._progress(f"recording {self._seconds:.0f} s of load")
        before = await self._record(launched, "before")
        self._progress("profiling with Spark")
        profile = self._directory.joinpath("profile")
        lake = ("--input", str(before), "--output", str(profile), "--peak", "all")
        await self._command("pipeline", "profile", *lake, "--federation", str(path))
        problem = str(profile.joinpath("problem.json"))
        plan = self._directory.joinpath("plan.json")
        plan.write_text(json.dumps(await self._command("plan", "allocate", problem)), encoding="utf-8")
        self._progress("putting the plan in force")
        began = time.monotonic()
        applied = await self._command("plan", "apply", str(plan), "--force", "--run-dir", str(run_dir))
        apply_s = time.monotonic() - began
        self._progress(f"recording {self._seconds:.0f} s of the same load")
        after = await self._record(launched, "after")
        load.running = False
        await publishing
        await _until(_now(lambda: load.all_came), "messages are missing", fatal=False)
        risk = {each["broker"]: (each["before"], each["after"]) for each in applied["preview"]["brokers"]}
        return LoopReport(
            capacity_msg_s=capacity_msg_s(),
            before=measured(before, {broker: pair[0] for broker, pair in risk.items()}),
            after=measured(after, {broker: pair[1] for broker, pair in risk.items()}),
            moved_topics=applied["rollout"]["done"],
            moved_subscriptions=applied["rollout"]["subscriptions"],
            apply_s=apply_s,
            account=load.account(),
        )

    async def _record(self, launched: LocalFederation, name: str) -> Path:
        lake = self._directory.joinpath(name)
        async with Recording(launched.run, lake) as recording:
            told = await recording.start(launched.federation, list(launched.endpoints.values()))
            if recording.process is None:
                raise MangroveError(told)
            await asyncio.sleep(WARM_UP_S + self._seconds)
        return lake

    async def _command(self, *words: str) -> dict[str, Any]:
        """A command of this program, with `--json`; what it says."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "mangrove.cli.main",
            *words,
            "--json",
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(COMMAND_S):
                output, errors = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()
            raise MangroveError(
                f"mangrove {' '.join(words[:2])} took longer than {COMMAND_S:.0f} s"
            ) from None
        if process.returncode:
            raise MangroveError(f"mangrove {' '.join(words)}: {errors.decode().strip()[-2000:]}")
        told: dict[str, Any] = json.loads(output)
        return told


def measured(lake: Path, predicted: dict[str, float]) -> tuple[EdgeFigures, ...]:
    """What the edges counted in whole seconds, without the first ones of the recorder."""
    import numpy as np
    import pyarrow.dataset as ds

    files = [str(path) for path in lake.joinpath(BROKER_SAMPLES.name).rglob("*.parquet")]
    rows = ds.dataset(files, format="parquet").to_table(columns=["ts", "broker", "msgs_in"]).to_pylist()
    stamps = sorted({row["ts"] for row in rows})
    # A look that came late counts two seconds as one; a recorder that has just begun misses some.
    whole = {
        later
        for earlier, later in pairwise(stamps)
        if (later - earlier).total_seconds() == 1 and (earlier - stamps[0]).total_seconds() >= WARM_UP_S
    }
    found = []
    for broker in sorted(predicted):
        counts = np.array([row["msgs_in"] for row in rows if row["broker"] == broker and row["ts"] in whole])
        found.append(
            EdgeFigures(
                broker=broker,
                mean_msg_s=float(counts.mean()),
                deviation_msg_s=float(counts.std(ddof=1)),
                predicted=predicted[broker],
                measured=float((counts > capacity_msg_s()).mean()),
                seconds=len(counts),
            )
        )
    return tuple(found)


def _federation_file() -> str:
    edges = ", ".join(f"{{capacity: {capacity_msg_s():g}}}" for _ in range(GROUPS))
    return (
        f"federation: loop\ndomains:\n  {DOMAIN}: {{edges: [{edges}]}}\n"
        # Load is not moved by itself: the plan alone is to be judged.
        "balancing: {distribution: round-robin, enabled: false}\n"
        "congestion: {mode: 'off'}\n"
    )


async def _subscribe(subscriber: Connection, load: SurgingLoad) -> None:
    async def take(message: Message) -> None:
        load.got(message.subject, message.data)

    for topic in topics():
        subscription = await subscriber.subscribe(topic, callback=take)
        await subscription.ready()


async def _leads(management: ManagementConnection) -> bool:
    status = await management.agent_status()
    return status is not None and status.leads


def _now(question: Callable[[], bool]) -> Callable[[], Any]:
    async def asked() -> bool:
        return question()

    return asked


async def _until(question: Callable[[], Any], problem: str, *, fatal: bool = True) -> None:
    deadline = time.monotonic() + READY_S
    while not await question():
        if time.monotonic() > deadline:
            if fatal:
                raise MangroveError(problem)
            return
        await asyncio.sleep(0.1)
