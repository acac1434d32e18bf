"""The SDK, with ids and times on every message, beside nats-py without: messages per second of one client.

Both libraries publish and receive the same messages through one nats-server, in turns, several rounds, so
that what disturbs the machine disturbs both; the median of the rounds' ratios counts. One process has both
ends, or each end has its own.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from dataclasses import replace
from pathlib import Path

import msgspec
from rich.console import Console

from mangrove.broker.nats.server import nats_server
from mangrove.cli.running import run_async
from mangrove.cli.tables.table import Table, name_column, number_column
from mangrove.host.ports import PortReservation
from mangrove.testbed.client_load import ClientLoad, ClientOutcome, Library, Reader, run_client_load

HOST = "127.0.0.1"
RATIO_BAR = 0.8
RATIO_AIM = 1.5
ROUNDS = 5
MESSAGES = 200_000
QUICK_SHARE = 4
JUDGED_BYTES = 256

LOAD = ClientLoad(Library.SDK, MESSAGES, JUDGED_BYTES)
CASES = {
    "one topic": LOAD,
    "one topic, iterated": replace(LOAD, reader=Reader.ITERATOR),
    "1,000 topics": replace(LOAD, topics=1000),
    "1,000 topics, one pattern": replace(LOAD, topics=1000, wildcard=True),
    "two processes": replace(LOAD, processes=2),
    "two processes, iterated": replace(LOAD, processes=2, reader=Reader.ITERATOR),
    "16 bytes": replace(LOAD, size_bytes=16),
    "4 KiB": replace(LOAD, size_bytes=4096, messages=MESSAGES // 4),
}
"""Sizes other than 256 bytes are for information."""


class Measured(msgspec.Struct, frozen=True):
    """One case: medians over the rounds."""

    size_bytes: int
    nats_py_msg_s: float
    sdk_msg_s: float
    ratio: float
    nats_py_cpu_us: float
    sdk_cpu_us: float
    rounds: list[float]


def run(seed: int, quick: bool) -> dict[str, object]:
    """All cases, both libraries in turns. The load is fixed, so the seed changes nothing."""
    del seed
    with tempfile.TemporaryDirectory(prefix="mangrove-bench-") as directory, PortReservation() as ports:
        return run_async(_run(Path(directory), ports.take(HOST), quick), asyncio.new_event_loop)


async def _run(directory: Path, port: int, quick: bool) -> dict[str, object]:
    # What waits at the broker for a subscriber that is behind is no matter of the client.
    config = f'listen: "{HOST}:{port}"\nmax_pending: 1GB\nwrite_deadline: "60s"\n'
    server = nats_server("server", config, directory)
    await server.start()
    try:
        return await asyncio.to_thread(_measure, f"nats://{HOST}:{port}", quick)
    finally:
        await server.stop()


def _measure(url: str, quick: bool) -> dict[str, object]:
    rounds, share = (1, QUICK_SHARE) if quick else (ROUNDS, 1)
    cases = {
        title: _case(url, replace(load, messages=load.messages // share), rounds)
        for title, load in CASES.items()
    }
    return {"cases": msgspec.to_builtins(cases)}


def _case(url: str, load: ClientLoad, rounds: int) -> Measured:
    outcomes: dict[Library, list[ClientOutcome]] = {library: [] for library in Library}
    for _ in range(rounds):
        for library in Library:
            outcomes[library].append(run_client_load(url, replace(load, library=library)))
    ratios = [
        ours.rate_msg_s / theirs.rate_msg_s
        for ours, theirs in zip(outcomes[Library.SDK], outcomes[Library.NATS_PY], strict=True)
    ]
    rates = {each: statistics.median(one.rate_msg_s for one in outcomes[each]) for each in Library}
    cpu = {
        each: statistics.median(1e6 * one.cpu_s / one.received for one in outcomes[each]) for each in Library
    }
    return Measured(
        size_bytes=load.size_bytes,
        nats_py_msg_s=rates[Library.NATS_PY],
        sdk_msg_s=rates[Library.SDK],
        ratio=statistics.median(ratios),
        nats_py_cpu_us=cpu[Library.NATS_PY],
        sdk_cpu_us=cpu[Library.SDK],
        rounds=ratios,
    )


def missed(result: dict[str, object]) -> list[str]:
    """Cases with 256-byte messages in which the SDK is too slow."""
    cases = msgspec.convert(result["cases"], dict[str, Measured])
    return [
        f"{title}: {case.ratio:.2f} times as fast as nats-py, less than {RATIO_BAR}"
        for title, case in cases.items()
        if case.size_bytes == JUDGED_BYTES and case.ratio < RATIO_BAR
    ]


def render(result: dict[str, object], console: Console) -> None:
    """One table."""
    cases = msgspec.convert(result["cases"], dict[str, Measured])
    table = Table(
        f"One client's messages per second, {JUDGED_BYTES} bytes if nothing is said",
        name_column("load"),
        *map(number_column, ("nats-py", "sdk", "ratio", "nats-py CPU", "sdk CPU")),
    )
    for title, case in cases.items():
        table.add(
            title,
            f"{case.nats_py_msg_s:,.0f}",
            f"{case.sdk_msg_s:,.0f}",
            f"{case.ratio:.2f}",
            f"{case.nats_py_cpu_us:.1f} µs",
            f"{case.sdk_cpu_us:.1f} µs",
        )
    table.show(console)
    console.print("CPU: of the client processes, for each message published and received")
    console.print(f"bar: {RATIO_BAR} in every case of {JUDGED_BYTES} bytes; aim: {RATIO_AIM}")
