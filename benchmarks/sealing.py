"""Confidential topics beside plain ones over two gateways, and what sealing a body costs.

Two nats-servers run once. Two pairs of gateways join them, each in an account of its own, both with keys; for
one pair the topic is confidential. The same load (256-byte messages, one publisher process, one subscriber
process) goes through both in turns, so that what disturbs the machine disturbs both.

What sealing and opening cost by themselves is measured in this process, for bodies of several sizes and for
one and for four destinations.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
from rich.console import Console

from mangrove.broker.nats.server import nats_server
from mangrove.cli.running import run_async
from mangrove.cli.tables.table import Table, name_column, number_column
from mangrove.gateway.sealing.domain_sealing import DomainSealing
from mangrove.host.keys.directory import KeyDirectory
from mangrove.host.keys.making import make_keys
from mangrove.host.keys.ring import KeyRing
from mangrove.host.ports import PortReservation
from mangrove.host.process import ManagedProcess, stop_in_order
from mangrove.host.run_directory import RunDirectory
from mangrove.model.address import Address
from mangrove.model.federation import Domain, Federation, Link
from mangrove.model.gateway_settings import Call, GatewaySettings
from mangrove.model.shared_names import GATEWAY_READY
from mangrove.model.topics import Contract, TopicRules
from mangrove.overlay.protocol.frames import Frame, FrameType
from mangrove.testbed.calibration_load import cpu_seconds
from mangrove.testbed.load import Load, run_between_accounts
from mangrove.testbed.pairs.shared_servers import shared_server_config

RATIO_BAR = 0.7
ROUNDS = 5
LATENCY_RATE_MSG_S = 5000.0
HOST = "127.0.0.1"
PLAIN, SEALED = "plain", "confidential"
ACCOUNTS = {PLAIN: "native", SEALED: "mangrove"}
"""The two accounts of the shared servers; there is no native leaf node here."""
MESSAGE = b"LMSG load.000000 256\r\n" + bytes(256) + b"\r\n"
BODY_MESSAGES = (1, 16, 256)
DESTINATIONS = (1, 4)


def run(seed: int, quick: bool) -> dict[str, object]:
    """Measure both kinds of topics in turns. The load is fixed, so the seed changes nothing."""
    del seed
    with tempfile.TemporaryDirectory(prefix="mangrove-bench-") as directory, PortReservation() as ports:
        measured = run_async(_run(Path(directory), ports, quick), asyncio.new_event_loop)
        return {**measured, "bodies": _bodies(Path(directory), quick)}


def _federation(names: str, *, confidential: bool) -> Federation:
    return Federation(
        name="bench",
        domains={name: Domain(name=name, base_port=1) for name in names},
        links=tuple(Link(between=("a", name)) for name in names[1:]),
        topics=TopicRules((Contract(match="load.>", confidential=confidential),)),
    )


async def _run(directory: Path, ports: PortReservation, quick: bool) -> dict[str, object]:
    make_keys(_federation("ab", confidential=True), directory / "keys")
    client = [ports.take(HOST) for _ in "ab"]
    leaf = [ports.take(HOST) for _ in "ab"]
    processes = [
        nats_server(name, shared_server_config(name, client[index], leaf[index], None), directory)
        for index, name in enumerate("ab")
    ]
    gateways: dict[str, list[ManagedProcess]] = {}
    for kind, account in ACCOUNTS.items():
        federation = _federation("ab", confidential=kind == SEALED)
        gate = [ports.take(HOST) for _ in "ab"]
        gateways[kind] = [
            _gateway(federation, name, directory, account, leaf[index], gate)
            for index, name in enumerate("ab")
        ]
        processes += gateways[kind]
    started: list[ManagedProcess] = []
    try:
        for process in processes:
            await process.start()
            started.append(process)
        pids = {kind: [process.pid or 0 for process in pair] for kind, pair in gateways.items()}
        return await asyncio.to_thread(_measure, client, pids, quick)
    finally:
        await stop_in_order(reversed(started))


def _gateway(
    federation: Federation, domain: str, directory: Path, account: str, leaf: int, gate: list[int]
) -> ManagedProcess:
    """A gateway at a broker that it takes for somebody else's: its keys are for links and bodies alone."""
    name = f"gateway-{account}-{domain}"
    run = RunDirectory(directory)
    settings = GatewaySettings(
        federation=federation,
        domain=domain,
        head_urls=(f"nats-leaf://{account}:{account}@{HOST}:{leaf}",),
        head_is_ours=False,
        listen=(Address(HOST, gate["ab".index(domain)]),),
        calls=(Call("b", (Address(HOST, gate[1]),)),) if domain == "a" else (),
        keys=str(KeyDirectory(directory / "keys").domain(domain).path),
    )
    path = run.settings(name)
    path.write_bytes(msgspec.json.encode(settings))
    return ManagedProcess(
        name,
        [sys.executable, "-m", "mangrove.gateway.daemon", str(path)],
        log_path=run.log(name),
        ready_text=GATEWAY_READY,
    )


def _measure(client: list[int], pids: dict[str, list[int]], quick: bool) -> dict[str, object]:
    load = Load(messages=200_000 if quick else 1_000_000)
    rounds = 1 if quick else ROUNDS
    rates: dict[str, list[float]] = {kind: [] for kind in ACCOUNTS}
    cpu_us: dict[str, list[float]] = {kind: [] for kind in ACCOUNTS}
    for _ in range(rounds):
        for kind in ACCOUNTS:
            before = sum(map(cpu_seconds, pids[kind]))
            outcome = run_between_accounts(ACCOUNTS[kind], client, load)
            if outcome.received < 0.9 * load.messages:
                raise RuntimeError(f"{kind}: only {outcome.received} of {load.messages} messages arrived")
            rates[kind].append(outcome.rate_msg_s)
            cpu_us[kind].append(1e6 * (sum(map(cpu_seconds, pids[kind])) - before) / load.messages)
    medians = {kind: statistics.median(each) for kind, each in rates.items()}
    return {
        "throughput_msg_s": medians,
        "ratio": medians[SEALED] / medians[PLAIN],
        "rounds": rates,
        "cpu_us_per_message": {kind: statistics.median(each) for kind, each in cpu_us.items()},
        "latency_ms": _latency(client, rounds),
    }


def _latency(client: list[int], rounds: int) -> dict[str, dict[str, float]]:
    """Paced load in turns: nearly every message is a frame of its own. The median round counts."""
    paced = Load(messages=int(LATENCY_RATE_MSG_S * 2), rate_msg_s=LATENCY_RATE_MSG_S)
    seen: dict[str, list[list[float]]] = {kind: [] for kind in ACCOUNTS}
    for _ in range(rounds):
        for kind in ACCOUNTS:
            seen[kind].append(
                statistics.quantiles(run_between_accounts(ACCOUNTS[kind], client, paced).latencies_s, n=100)
            )
    return {
        kind: {
            "p50": 1000 * statistics.median(cuts[49] for cuts in each),
            "p99": 1000 * statistics.median(cuts[98] for cuts in each),
        }
        for kind, each in seen.items()
    }


def _bodies(directory: Path, quick: bool) -> list[dict[str, float]]:
    """What sealing and opening one body costs, in microseconds of CPU time."""
    federation = _federation("abcde", confidential=True)
    keys = KeyDirectory(directory / "more-keys")
    make_keys(federation, keys.path)
    ends = {name: DomainSealing(federation, name, KeyRing.read(keys.domain(name).path)) for name in "ab"}
    found: list[dict[str, float]] = []
    for destinations in DESTINATIONS:
        for messages in BODY_MESSAGES:
            body = MESSAGE * messages
            mask = sum(1 << position for position in range(1, destinations + 1))
            frame = Frame(FrameType.DATA, body, 32, 0, 0, 1, mask, flow_id=messages, sequence=1)
            sealed = msgspec.structs.replace(frame, body=ends["a"].sealer.seal(frame))
            found.append(
                {
                    "destinations": destinations,
                    "messages": messages,
                    "seal_us": _cpu_us(partial(ends["a"].sealer.seal, frame), quick),
                    "open_us": _cpu_us(partial(ends["b"].opener.look_into, sealed), quick),
                    "overhead_bytes": len(sealed.body) - len(body),
                }
            )
    return found


def _cpu_us(act: Callable[[], object], quick: bool) -> float:
    """CPU time for doing something once: the best of several passes, so that others disturb it least."""
    repeats = 100 if quick else 500
    passes: list[float] = []
    for _ in range(9):
        started = time.process_time()
        for _ in range(repeats):
            act()
        passes.append(time.process_time() - started)
    return 1e6 * min(passes) / repeats


def missed(result: dict[str, object]) -> list[str]:
    """Confidential topics reach so much of the throughput of plain ones."""
    ratio = msgspec.convert(result["ratio"], float)
    return [] if ratio >= RATIO_BAR else [f"throughput ratio {ratio:.2f} is below {RATIO_BAR}"]


def render(result: dict[str, object], console: Console) -> None:
    """Two tables: topics over two gateways, and single bodies."""
    rates = msgspec.convert(result["throughput_msg_s"], dict[str, float])
    cpu_us = msgspec.convert(result["cpu_us_per_message"], dict[str, float])
    latency = msgspec.convert(result["latency_ms"], dict[str, dict[str, float]])
    table = Table(
        "Two gateways with keys, 256-byte messages (median of the rounds)",
        name_column("topic"),
        *map(number_column, ("throughput", "CPU for each message", "p50", "p99")),
    )
    for kind in ACCOUNTS:
        table.add(
            kind,
            f"{rates[kind]:,.0f} msg/s",
            f"{cpu_us[kind]:.2f} µs",
            f"{latency[kind]['p50']:.2f} ms",
            f"{latency[kind]['p99']:.2f} ms",
        )
    table.show(console)
    table = Table(
        "One body of 256-byte messages",
        *map(number_column, ("destinations", "messages", "to seal", "to open", "longer by")),
    )
    for each in msgspec.convert(result["bodies"], list[dict[str, float]]):
        table.add(
            f"{each['destinations']:.0f}",
            f"{each['messages']:.0f}",
            f"{each['seal_us']:.1f} µs",
            f"{each['open_us']:.1f} µs",
            f"{each['overhead_bytes']:.0f} bytes",
        )
    table.show(console)
    ratio = msgspec.convert(result["ratio"], float)
    console.print(
        f"throughput ratio {ratio:.2f}; bar: at least {RATIO_BAR}; latency at {LATENCY_RATE_MSG_S:,.0f} msg/s"
    )
