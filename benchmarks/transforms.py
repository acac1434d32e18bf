"""Transforms in a process of their own beside the same ones called in place, and what a message costs.

Each kind of transform gets the same 256-byte documents, a thousand at a time as frames bring them: first
called in this process, without limits, then through a lane and its worker, as at a gateway. Both in turns, so
that what disturbs the machine disturbs both. CPU time is that of this process (the gateway's share) and of
the worker. A lone message is timed there and back.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections import Counter
from collections.abc import Callable
from resource import RUSAGE_CHILDREN, getrusage

import msgspec
from rich.console import Console

from mangrove.cli.running import run_async
from mangrove.cli.tables.table import Table, name_column, number_column
from mangrove.gateway.mediation.exchange import Failure
from mangrove.gateway.mediation.job import Job, Named, written
from mangrove.gateway.mediation.lane import Lane
from mangrove.mediation.transformation import made
from mangrove.model.mediation.transform import Format, Transform
from mangrove.overlay.protocol.bodies import Message

RATIO_BAR = 0.25
JUDGED = "keep, pick and rename fields"
ROUNDS = 5
BURST = 1000
LONE = 200
SHEET = """<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
<xsl:output method="text"/>
<xsl:template match="/alert">{"id": <xsl:value-of select="id"/>}</xsl:template>
</xsl:stylesheet>"""
FIELDS = {"id": 7, "severity": 4, "place": [47.61, -122.33], "text": "x" * 180}
DOCUMENT = json.dumps(FIELDS).encode()
XML = b"<alert><id>7</id><severity>4</severity><text>%b</text></alert>" % (b"x" * 190)
KINDS: dict[str, tuple[Transform, bytes]] = {
    "JSON to MessagePack": (Transform(encode=Format.MSGPACK), DOCUMENT),
    JUDGED: (
        Transform(keep="severity >= `3`", pick=("id", "severity"), rename={"severity": "level"}),
        DOCUMENT,
    ),
    "XML by XSLT": (Transform(stylesheet=SHEET), XML),
    "a function that does nothing": (Transform(function="mangrove.mediation.functions:unchanged"), DOCUMENT),
}


def run(seed: int, quick: bool) -> dict[str, object]:
    """Measure all kinds. The load is fixed, so the seed changes nothing."""
    del seed
    kinds = {
        name: run_async(_measure(name, transform, payload, quick), asyncio.new_event_loop)
        for name, (transform, payload) in KINDS.items()
    }
    return {"kinds": kinds, "ratio": kinds[JUDGED]["in_place_us"] / kinds[JUDGED]["through_us"]}


class _Sink:
    """Writes messages as a gateway does, and says when all have come."""

    def __init__(self) -> None:
        self.left = 0
        self.done = asyncio.Event()

    def passed(self, job: Job, payload: bytes) -> None:
        written(job.message, job.head, payload)
        self._one()

    def left_out(self, job: Job) -> None:
        self._one()

    def failed(self, job: Job, failure: Failure, detail: str) -> None:
        raise RuntimeError(f"{failure}: {detail}")

    def dropped(self, job: Job) -> None:
        raise RuntimeError("dropped")

    def flush(self) -> None:
        pass

    def _one(self) -> None:
        self.left -= 1
        if not self.left:
            self.done.set()


async def _measure(name: str, transform: Transform, payload: bytes, quick: bool) -> dict[str, float]:
    messages, rounds = (5_000, 1) if quick else (50_000, ROUNDS)
    sink = _Sink()
    tasks: list[asyncio.Task[None]] = []
    lane = Lane(
        name,
        sink,
        max_message_bytes=1 << 20,
        queue_bytes=64 << 20,
        look_after=lambda lane: tasks.append(asyncio.create_task(lane.run())),
        started=Counter(),
    )
    use = Named(name, transform)
    message = Message("bench.topic", "", -1, len(payload))
    job = Job(message, "a", b"", payload, use)

    async def through(count: int, burst: int) -> float:
        began = time.perf_counter()
        for start in range(0, count, burst):
            sink.left = min(burst, count - start)
            sink.done.clear()
            lane.take([job] * sink.left)
            await sink.done.wait()
        return time.perf_counter() - began

    apply = made(transform)
    in_place: list[float] = []
    by_lane: list[float] = []
    here: list[float] = []
    try:
        await through(100, 100)
        worker_before = getrusage(RUSAGE_CHILDREN)
        for _ in range(rounds):
            in_place.append(_called(lambda: apply(payload, "bench.topic", {}), messages))
            cpu = time.process_time()
            by_lane.append(await through(messages, BURST))
            here.append(time.process_time() - cpu)
        lone = [await through(1, 1) for _ in range(LONE)]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    ended = getrusage(RUSAGE_CHILDREN)
    there = ended.ru_utime + ended.ru_stime - worker_before.ru_utime - worker_before.ru_stime
    return {
        "in_place_us": 1e6 * statistics.median(in_place) / messages,
        "through_us": 1e6 * statistics.median(by_lane) / messages,
        "gateway_cpu_us": 1e6 * statistics.median(here) / messages,
        "worker_cpu_us": 1e6 * there / (messages * rounds),
        "lone_ms": 1000 * statistics.median(lone),
    }


def _called(act: Callable[[], object], times: int) -> float:
    began = time.perf_counter()
    for _ in range(times):
        act()
    return time.perf_counter() - began


def missed(result: dict[str, object]) -> list[str]:
    """Through a process, transforms reach so much of the throughput that they have in place."""
    ratio = msgspec.convert(result["ratio"], float)
    return [] if ratio >= RATIO_BAR else [f"throughput ratio {ratio:.2f} is below {RATIO_BAR}"]


def render(result: dict[str, object], console: Console) -> None:
    """One row for each kind."""
    table = Table(
        "One 256-byte message",
        name_column("transform"),
        *map(number_column, ("in place", "through a process", "CPU gateway", "CPU worker", "alone")),
    )
    for name, each in msgspec.convert(result["kinds"], dict[str, dict[str, float]]).items():
        table.add(
            name,
            *(
                f"{each[key]:.1f} µs"
                for key in ("in_place_us", "through_us", "gateway_cpu_us", "worker_cpu_us")
            ),
            f"{each['lone_ms']:.2f} ms",
        )
    table.show(console)
    ratio = msgspec.convert(result["ratio"], float)
    console.print(f"throughput ratio {ratio:.2f} ({JUDGED}); bar: at least {RATIO_BAR}")
