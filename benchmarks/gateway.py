"""Throughput and latency over two Mangrove gateways, beside a native NATS leaf node between the same servers.

Two nats-servers run once. In the account NATIVE a leaf-node connection joins them; in the account MANGROVE
two gateways do. The same load (256-byte messages, one publisher process, one subscriber process) goes through
both in turns, several rounds, so that what disturbs the machine disturbs both.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from pathlib import Path

import msgspec
from rich.console import Console

from mangrove.cli.running import run_async
from mangrove.cli.tables.table import Table, name_column, number_column
from mangrove.host.ports import PortReservation
from mangrove.testbed.calibration_load import cpu_seconds
from mangrove.testbed.load import Load, run_between_accounts
from mangrove.testbed.pairs.gateway_pair import gateway_pair

RATIO_BAR = 0.35
RATIO_AIM = 0.5
LATENCY_RATE_MSG_S = 5000.0
ROUNDS = 3
PATHS = ("native", "mangrove")


def run(seed: int, quick: bool) -> dict[str, object]:
    """Measure both paths in turns. The load is fixed, so the seed changes nothing."""
    del seed
    with tempfile.TemporaryDirectory(prefix="mangrove-bench-") as directory, PortReservation() as ports:
        return run_async(_run(Path(directory), ports, quick), asyncio.new_event_loop)


async def _run(directory: Path, ports: PortReservation, quick: bool) -> dict[str, object]:
    async with gateway_pair(directory, ports) as pair:
        return await asyncio.to_thread(_measure, pair.clients, pair.pids, quick)


def _measure(client: list[int], pids: dict[str, int], quick: bool) -> dict[str, object]:
    messages = 200_000 if quick else 1_000_000
    rounds = 1 if quick else ROUNDS
    cpu_us: dict[str, dict[str, float]] = {path: dict.fromkeys(pids, 0.0) for path in PATHS}
    loads = {
        "one topic": Load(messages=messages),
        "1,000 topics": Load(messages=messages, topics=1000),
    }
    throughput: dict[str, dict[str, list[float]]] = {}
    for title, load in loads.items():
        rates: dict[str, list[float]] = {path: [] for path in PATHS}
        for _ in range(rounds):
            for path in PATHS:
                before = {name: cpu_seconds(pid) for name, pid in pids.items()}
                outcome = run_between_accounts(path, client, load)
                if load.topics == 1:
                    for name, pid in pids.items():
                        spent = cpu_seconds(pid) - before[name]
                        cpu_us[path][name] += 1e6 * spent / (messages * rounds)
                if outcome.received < 0.9 * load.messages:
                    raise RuntimeError(f"{path}: only {outcome.received} of {load.messages} messages arrived")
                rates[path].append(outcome.rate_msg_s)
        throughput[title] = rates
    latency = _measure_latency(client, rounds)
    summary: dict[str, object] = {}
    for title, rates in throughput.items():
        medians = {path: statistics.median(rates[path]) for path in PATHS}
        summary[title] = {
            "native_msg_s": medians["native"],
            "mangrove_msg_s": medians["mangrove"],
            "ratio": medians["mangrove"] / medians["native"],
            "rounds": rates,
        }
    return {"throughput": summary, "latency_at_5000_msg_s": latency, "cpu_us_per_message": cpu_us}


def _measure_latency(client: list[int], rounds: int) -> dict[str, dict[str, float]]:
    """Paced load through both paths in turns; the median round counts."""
    paced = Load(messages=int(LATENCY_RATE_MSG_S * 2), rate_msg_s=LATENCY_RATE_MSG_S)
    seen: dict[str, list[tuple[float, float, int]]] = {path: [] for path in PATHS}
    for _ in range(rounds):
        for path in PATHS:
            outcome = run_between_accounts(path, client, paced)
            cuts = statistics.quantiles(outcome.latencies_s, n=100)
            seen[path].append((cuts[49], cuts[98], outcome.received))
    return {
        path: {
            "p50_ms": 1000 * statistics.median(figures[0] for figures in seen[path]),
            "p99_ms": 1000 * statistics.median(figures[1] for figures in seen[path]),
            "received": sum(figures[2] for figures in seen[path]),
            "sent": rounds * paced.messages,
        }
        for path in PATHS
    }


def missed(result: dict[str, object]) -> list[str]:
    """The ratio for one topic, the case of the bar, must reach it."""
    throughput = msgspec.convert(result["throughput"], dict[str, dict[str, object]])
    ratio = msgspec.convert(throughput["one topic"]["ratio"], float)
    return [] if ratio >= RATIO_BAR else [f"throughput ratio {ratio:.2f} is below {RATIO_BAR}"]


def render(result: dict[str, object], console: Console) -> None:
    """Two tables: throughput and latency."""
    throughput = msgspec.convert(result["throughput"], dict[str, dict[str, object]])
    table = Table(
        "Throughput, 256-byte messages (median of the rounds)",
        name_column("load"),
        *map(number_column, ("native leaf node", "two gateways", "ratio")),
    )
    for title, row in throughput.items():
        table.add(
            title,
            f"{row['native_msg_s']:,.0f} msg/s",
            f"{row['mangrove_msg_s']:,.0f} msg/s",
            f"{row['ratio']:.2f}",
        )
    table.show(console)
    table = Table(
        f"Latency at {LATENCY_RATE_MSG_S:,.0f} msg/s",
        name_column("path"),
        *map(number_column, ("p50", "p99", "arrived")),
    )
    latency = msgspec.convert(result["latency_at_5000_msg_s"], dict[str, dict[str, float]])
    for path, figures in latency.items():
        table.add(
            path,
            f"{figures['p50_ms']:.2f} ms",
            f"{figures['p99_ms']:.2f} ms",
            f"{figures['received']:,.0f} of {figures['sent']:,.0f}",
        )
    table.show(console)
    cpu = msgspec.convert(result["cpu_us_per_message"], dict[str, dict[str, float]])
    processes = next(iter(cpu.values()))
    table = Table(
        "CPU time for each message (one topic)",
        name_column("path"),
        *(number_column(each if each.startswith("gateway") else f"nats-server {each}") for each in processes),
    )
    for path, figures in cpu.items():
        table.add(path, *(f"{spent:.2f} µs" for spent in figures.values()))
    table.show(console)
    console.print(f"bar: ratio at least {RATIO_BAR} for one topic; aim {RATIO_AIM}")
