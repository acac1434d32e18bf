"""Gateway links with keys, beside the same links without: handshake, throughput, CPU, failures of a ring.

Two nats-servers run once. Two pairs of gateways join them, each in an account of its own: one pair without
keys, one with keys, whose link is TLS 1.3 with certificates on both sides. The same load (256-byte messages,
one publisher process, one subscriber process) goes through both in turns, so that what disturbs the machine
disturbs both; the CPU time is that of the two gateway processes, as the kernel counts it.

Handshakes are done in this process, without a network: what they cost is computing. A connection that breaks
is called again: how long it takes from the call until both sides have greeted is measured over loopback, with
keys and without, in turns. On a line with a delay TLS adds one round trip to the two that it takes anyway.

At last the ring of `bench failover` runs with keys for everything, and must meet its bars.
"""

from __future__ import annotations

import asyncio
import logging
import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import msgspec
from rich.console import Console

from mangrove.broker.nats.server import nats_server
from mangrove.cli.measurement.phase_figures import show_phases
from mangrove.cli.running import run_async
from mangrove.cli.tables.table import Table, name_column, number_column
from mangrove.gateway.links.connection import LinkConnection
from mangrove.gateway.links.links import Links
from mangrove.gateway.trust.keys_in_force import KeysInForce
from mangrove.host.keys.directory import KeyDirectory
from mangrove.host.keys.making import make_keys
from mangrove.host.keys.ring import KeyRing
from mangrove.host.ports import PortReservation
from mangrove.host.process import ManagedProcess, stop_in_order
from mangrove.host.run_directory import RunDirectory
from mangrove.host.tls_channel import TlsChannel
from mangrove.model.address import Address
from mangrove.model.federation import Domain, Federation, Link
from mangrove.model.gateway_settings import Call, GatewaySettings
from mangrove.model.shared_names import GATEWAY_READY
from mangrove.overlay.engine import OverlayEngine
from mangrove.testbed.accounting import Figures
from mangrove.testbed.calibration_load import cpu_seconds
from mangrove.testbed.load import Load, run_between_accounts
from mangrove.testbed.pairs.shared_servers import shared_server_config
from mangrove.testbed.probe_traffic import ProbeTraffic
from mangrove.testbed.ring.scenario import (
    QUICK,
    RATE_MSG_S,
    Schedule,
    account,
    running_ring,
    shortfalls,
)

RATIO_BAR = 0.75
HANDSHAKES = 200
ROUNDS = 5
LATENCY_RATE_MSG_S = 5000.0
HOST = "127.0.0.1"
PLAIN, SECURED = "without keys", "with keys"
ACCOUNTS = {PLAIN: "native", SECURED: "mangrove"}
"""The two accounts of the shared servers; there is no native leaf node here."""


def run(seed: int, quick: bool) -> dict[str, object]:
    """Measure both kinds of links in turns, then the ring. The seed is that of the ring's emulator."""
    with tempfile.TemporaryDirectory(prefix="mangrove-bench-") as directory, PortReservation() as ports:
        links = run_async(_run(Path(directory), ports, quick), asyncio.new_event_loop)
    schedule = QUICK if quick else Schedule()
    with tempfile.TemporaryDirectory(prefix="mangrove-bench-") as directory:
        phases = run_async(_ring(Path(directory), schedule, seed), asyncio.new_event_loop)
    return {**links, "rate_msg_s": RATE_MSG_S, "black_hole_s": schedule.black_hole, "ring": phases}


async def _ring(directory: Path, schedule: Schedule, seed: int) -> dict[str, dict[str, Figures]]:
    """The phases of `bench failover`, with keys and without the native pair."""
    async with (
        running_ring(directory, seed, secured=True) as ring,
        ProbeTraffic(ring.head("a"), ring.topics()) as probes,
    ):
        await probes.subscribe()
        await ring.settle()
        await probes.publish()
        await asyncio.sleep(schedule.warm_up)
        spans = await ring.disturb(schedule)
        probes.stop_publishing()
        return account(spans, await probes.collect())


async def _run(directory: Path, ports: PortReservation, quick: bool) -> dict[str, object]:
    federation = Federation(
        name="bench",
        domains={name: Domain(name=name, base_port=1) for name in "ab"},
        links=(Link(between=("a", "b")),),
    )
    make_keys(federation, directory / "keys")
    client = [ports.take(HOST) for _ in "ab"]
    leaf = [ports.take(HOST) for _ in "ab"]
    processes = [
        nats_server(name, shared_server_config(name, client[index], leaf[index], None), directory)
        for index, name in enumerate("ab")
    ]
    gateways: dict[str, list[ManagedProcess]] = {}
    for kind, user in ACCOUNTS.items():
        gate = [ports.take(HOST) for _ in "ab"]
        gateways[kind] = [
            _gateway(federation, name, directory, user, leaf[index], gate, kind == SECURED)
            for index, name in enumerate("ab")
        ]
        processes += gateways[kind]
    started: list[ManagedProcess] = []
    try:
        for process in processes:
            await process.start()
            started.append(process)
        pids = {kind: [process.pid or 0 for process in pair] for kind, pair in gateways.items()}
        measured = await asyncio.to_thread(_measure, client, pids, quick)
    finally:
        await stop_in_order(reversed(started))
    count = HANDSHAKES // (4 if quick else 1)
    return {
        "handshake": _handshakes(directory / "keys", count),
        "call_ms": await _calls(federation, directory / "keys", ports.take(HOST), count),
        **measured,
    }


def _gateway(
    federation: Federation,
    domain: str,
    directory: Path,
    user: str,
    leaf: int,
    gate: list[int],
    secured: bool,
) -> ManagedProcess:
    """A gateway at a broker that it takes for somebody else's, so that its keys are for its link alone."""
    name = f"gateway-{user}-{domain}"
    run = RunDirectory(directory)
    settings = GatewaySettings(
        federation=federation,
        domain=domain,
        head_urls=(f"nats-leaf://{user}:{user}@{HOST}:{leaf}",),
        head_is_ours=False,
        listen=(Address(HOST, gate["ab".index(domain)]),),
        calls=(Call("b", (Address(HOST, gate[1]),)),) if domain == "a" else (),
        keys=str(KeyDirectory(directory / "keys").domain(domain).path) if secured else "",
    )
    path = run.settings(name)
    path.write_bytes(msgspec.json.encode(settings))
    return ManagedProcess(
        name,
        [sys.executable, "-m", "mangrove.gateway.daemon", str(path)],
        log_path=run.log(name),
        ready_text=GATEWAY_READY,
    )


def _handshakes(keys: Path, count: int) -> dict[str, float]:
    """What a handshake costs each side, in milliseconds of computing; the median of many."""
    rings = {name: KeyRing.read(KeyDirectory(keys).domain(name).path) for name in "ab"}
    calls, listens = rings["a"].client_context(), rings["b"].server_context()
    listens.num_tickets = 0
    caller_ms: list[float] = []
    listener_ms: list[float] = []
    for _ in range(count):
        caller, listener = TlsChannel(calls, server_side=False), TlsChannel(listens, server_side=True)
        spent = {"caller": 0.0, "listener": 0.0}
        began = time.process_time()
        said = caller.begin()
        spent["caller"] += time.process_time() - began
        while not (caller.established and listener.established):
            for side, channel in (("listener", listener), ("caller", caller)):
                began = time.process_time()
                channel.receive(said)
                said = channel.outgoing()
                spent[side] += time.process_time() - began
        began = time.process_time()
        rings["b"].peer(listener.tls)
        spent["listener"] += time.process_time() - began
        caller_ms.append(1000 * spent["caller"])
        listener_ms.append(1000 * spent["listener"])
    return {
        "count": count,
        "caller_ms": statistics.median(caller_ms),
        "listener_ms": statistics.median(listener_ms),
    }


async def _calls(federation: Federation, keys: Path, port: int, count: int) -> dict[str, float]:
    """From a call to both greetings, in milliseconds; the median of many."""
    logging.getLogger("mangrove.gateway").setLevel(logging.ERROR)
    taken_ms: dict[str, list[float]] = {PLAIN: [], SECURED: []}
    ends: dict[str, tuple[Links, Links]] = {}
    for kind in taken_ms:
        caller, listener = (
            Links(
                OverlayEngine(federation, name, epoch=1),
                tuple(set("ab") - {name}),
                carry_out=lambda _: None,
                attached=lambda: None,
                keys=KeysInForce.read(str(KeyDirectory(keys).domain(name).path)) if kind == SECURED else None,
            )
            for name in "ab"
        )
        ends[kind] = caller, listener
    for _ in range(count):
        for kind, (caller, listener) in ends.items():
            (server,) = await listener.listen((Address(HOST, port),))
            began = time.perf_counter()
            connection = LinkConnection(caller, "b")
            await asyncio.get_running_loop().create_connection(partial(_itself, connection), HOST, port)
            await connection.settled.wait()
            taken_ms[kind].append(1000 * (time.perf_counter() - began))
            server.close()
            await caller.close()
            await listener.close()
    return {kind: statistics.median(each) for kind, each in taken_ms.items()}


def _itself(connection: LinkConnection) -> LinkConnection:
    return connection


def _measure(client: list[int], pids: dict[str, list[int]], quick: bool) -> dict[str, object]:
    messages = 200_000 if quick else 1_000_000
    rounds = 2 if quick else ROUNDS
    rates: dict[str, list[float]] = {kind: [] for kind in ACCOUNTS}
    cpu_us: dict[str, list[float]] = {kind: [] for kind in ACCOUNTS}
    latency_ms: dict[str, list[tuple[float, float]]] = {kind: [] for kind in ACCOUNTS}
    paced = Load(messages=int(LATENCY_RATE_MSG_S * 2), rate_msg_s=LATENCY_RATE_MSG_S)
    for number in range(rounds):
        for kind in list(ACCOUNTS)[:: 1 if number % 2 else -1]:
            before = sum(map(cpu_seconds, pids[kind]))
            outcome = run_between_accounts(ACCOUNTS[kind], client, Load(messages=messages))
            if outcome.received < 0.9 * messages:
                raise RuntimeError(f"{kind}: only {outcome.received} of {messages} messages arrived")
            cpu_us[kind].append(1e6 * (sum(map(cpu_seconds, pids[kind])) - before) / messages)
            rates[kind].append(outcome.rate_msg_s)
            cuts = statistics.quantiles(
                run_between_accounts(ACCOUNTS[kind], client, paced).latencies_s, n=100
            )
            latency_ms[kind].append((1000 * cuts[49], 1000 * cuts[98]))
    medians = {kind: statistics.median(each) for kind, each in rates.items()}
    return {
        "throughput": {
            "without_msg_s": medians[PLAIN],
            "with_msg_s": medians[SECURED],
            "ratio": medians[SECURED] / medians[PLAIN],
            "rounds": rates,
        },
        "cpu_us_per_message": {kind: statistics.median(each) for kind, each in cpu_us.items()},
        "latency_at_5000_msg_s": {
            kind: {
                "p50_ms": statistics.median(p50 for p50, _ in each),
                "p99_ms": statistics.median(p99 for _, p99 in each),
            }
            for kind, each in latency_ms.items()
        },
    }


def missed(result: dict[str, object]) -> list[str]:
    """The ratio of throughput must reach its bar, and the ring those of `bench failover`."""
    ratio = msgspec.convert(result["throughput"], dict[str, object])["ratio"]
    assert isinstance(ratio, float)
    slow = [] if ratio >= RATIO_BAR else [f"throughput ratio {ratio:.2f} is below {RATIO_BAR}"]
    return slow + shortfalls(_phases(result))


def _phases(result: dict[str, object]) -> dict[str, dict[str, Figures]]:
    return msgspec.convert(result["ring"], dict[str, dict[str, Figures]])


def render(result: dict[str, object], console: Console) -> None:
    """One table for the links, lines for the handshake and for a reset, and one table for the ring."""
    throughput = msgspec.convert(result["throughput"], dict[str, object])
    cpu = msgspec.convert(result["cpu_us_per_message"], dict[str, float])
    latency = msgspec.convert(result["latency_at_5000_msg_s"], dict[str, dict[str, float]])
    handshake = msgspec.convert(result["handshake"], dict[str, float])
    table = Table(
        "Links of two gateways, 256-byte messages (median of the rounds)",
        name_column("links"),
        *map(number_column, ("throughput", "CPU of both", "p50", "p99")),
    )
    for kind, key in ((PLAIN, "without_msg_s"), (SECURED, "with_msg_s")):
        table.add(
            kind,
            f"{throughput[key]:,.0f} msg/s",
            f"{cpu[kind]:.2f} µs",
            f"{latency[kind]['p50_ms']:.2f} ms",
            f"{latency[kind]['p99_ms']:.2f} ms",
        )
    table.show(console)
    console.print(
        f"throughput with keys over without: {throughput['ratio']:.2f} (bar {RATIO_BAR}); "
        f"p50 and p99 at {LATENCY_RATE_MSG_S:,.0f} msg/s"
    )
    console.print(
        f"a handshake takes {handshake['caller_ms']:.2f} ms of CPU of who calls and "
        f"{handshake['listener_ms']:.2f} ms of who listens (median of {handshake['count']:.0f})"
    )
    called = msgspec.convert(result["call_ms"], dict[str, float])
    console.print(
        f"from a call until both sides have greeted: {called[PLAIN]:.1f} ms without keys, "
        f"{called[SECURED]:.1f} ms with them, over loopback; one round trip more on any other line"
    )
    show_phases(RATE_MSG_S, _phases(result), console, late=True)
    console.print(f"a ring with keys; black hole: {result['black_hole_s']:g} s on the link a – d")
