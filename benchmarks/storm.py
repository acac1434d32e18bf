"""A storm of subscriptions beside a steady stream that passes the same site; native leaf nodes beside it.

Three nats-servers stand in a chain. In the account NATIVE leaf-node connections join them; in the account
MANGROVE three gateways do; both over emulated links of 5 ms. A client of the one in the middle subscribes to
100,000 subjects at once, and ends all its subscriptions at once, while a steady stream goes from the first to
the last. Measured: the worst delay of the stream, what it lost, how long it takes until publishers at both
ends are heard on all subjects, and until both are told that nobody wants them any more. Then the same with
gateways that have keys: links in TLS, interest signed.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import numpy as np
from rich.console import Console

from mangrove.broker.nats.server import nats_server
from mangrove.cli.running import run_async
from mangrove.cli.tables.table import Table, name_column, number_column
from mangrove.host.keys.making import make_keys
from mangrove.host.ports import PortReservation
from mangrove.host.process import ManagedProcess, stop_in_order
from mangrove.host.run_directory import RunDirectory
from mangrove.model.address import Address
from mangrove.model.federation import Domain, Federation, Link
from mangrove.model.gateway_settings import Call, GatewaySettings
from mangrove.model.shared_names import GATEWAY_READY
from mangrove.testbed.emulated_links import emulator
from mangrove.testbed.load import BrokerAddress
from mangrove.testbed.pairs.shared_servers import shared_server_config
from mangrove.testbed.probe_traffic import ProbeTopic, ProbeTraffic
from mangrove.testbed.shaping import Shape
from mangrove.testbed.wan import WanLink, WanSettings, Way

HOST = "127.0.0.1"
SUBJECTS = 100_000
QUICK_SUBJECTS = 20_000
MANY_SUBJECTS = 250_000
STREAM_MSG_S = 200.0
LINK = Shape(delay_ms=5.0)
SAMPLES = 50
DELAY_BAR_MS = 250.0
SERVED_BAR_S = 3.0
SERVED_BAR_RATIO = 4.0
TIMEOUT_S = 60.0
PATHS = ("native", "mangrove")
WITH_KEYS = "with keys"
"""The gateways' path again, after they were given keys."""
STREAM = "steady.stream"


def run(seed: int, quick: bool) -> dict[str, object]:
    """Both paths, one after the other. The seed is the emulator's, whose links have no jitter here."""
    with tempfile.TemporaryDirectory(prefix="mangrove-bench-") as directory, PortReservation() as ports:
        return run_async(_run(Path(directory), ports, seed, quick), asyncio.new_event_loop)


async def _run(directory: Path, ports: PortReservation, seed: int, quick: bool) -> dict[str, object]:
    client, leaf, gate = ({name: ports.take(HOST) for name in "abc"} for _ in range(3))
    run_directory = RunDirectory(directory)
    leaf_relays = {name: _relay(f"leaf-{name}", leaf[name], ports) for name in "ab"}
    gate_relays = {name: _relay(f"gate-{name}", gate[name], ports) for name in "bc"}
    control = Address(HOST, ports.take(HOST))
    links = (*leaf_relays.values(), *gate_relays.values())
    hubs = {"a": None, "b": leaf_relays["a"].ways[0].listen.port, "c": leaf_relays["b"].ways[0].listen.port}
    processes = [
        emulator(WanSettings(control=control, links=links, seed=seed), run_directory),
        *(
            nats_server(name, shared_server_config(name, client[name], leaf[name], hub), directory)
            for name, hub in hubs.items()
        ),
    ]
    keys = make_keys(_federation(), directory / "keys")
    started: list[ManagedProcess] = []

    async def start(process: ManagedProcess) -> ManagedProcess:
        await process.start()
        started.append(process)
        return process

    def gateway(name: str, folder: str = "") -> ManagedProcess:
        return _gateway(run_directory, name, leaf[name], gate[name], gate_relays, folder)

    try:
        for process in processes:
            await start(process)
        plain = [await start(gateway(name)) for name in "abc"]
        count = QUICK_SUBJECTS if quick else SUBJECTS
        paths = {path: await _storm(path, client, count) for path in PATHS}
        many = {} if quick else await _storm("mangrove", client, MANY_SUBJECTS)
        await stop_in_order(plain)
        del started[-len(plain) :]
        for name in "abc":
            await start(gateway(name, str(keys.domain(name).path)))
        paths[WITH_KEYS] = await _storm("mangrove", client, count)
        return {"subjects": count, "delay_ms": LINK.delay_ms, "paths": paths, "many": many}
    finally:
        await stop_in_order(reversed(started))


def _relay(name: str, port: int, ports: PortReservation) -> WanLink:
    """An emulated link to a port."""
    way = Way(listen=Address(HOST, ports.take(HOST)), target=Address(HOST, port))
    return WanLink(name=name, ways=(way,), shape=LINK)


def _federation() -> Federation:
    return Federation(
        name="storm",
        domains={each: Domain(name=each, base_port=1) for each in "abc"},
        links=(Link(between=("a", "b")), Link(between=("b", "c"))),
    )


def _gateway(
    run: RunDirectory, name: str, leaf: int, listen: int, relays: dict[str, WanLink], keys: str
) -> ManagedProcess:
    """A gateway; the brokers know nothing of its keys, if it has any."""
    federation = _federation()
    callee = {"a": "b", "b": "c"}.get(name)
    settings = GatewaySettings(
        federation=federation,
        domain=name,
        head_urls=(f"nats-leaf://mangrove:mangrove@{HOST}:{leaf}",),
        listen=(Address(HOST, listen),),
        calls=(Call(callee, (relays[callee].ways[0].listen,)),) if callee else (),
        keys=keys,
        head_is_ours=not keys,
    )
    path = run.settings(f"gateway-{name}")
    path.write_bytes(msgspec.json.encode(settings))
    return ManagedProcess(
        f"gateway-{name}",
        [sys.executable, "-m", "mangrove.gateway.daemon", str(path)],
        log_path=run.log(f"gateway-{name}"),
        ready_text=GATEWAY_READY,
    )


class _Client:
    """A plain client: what it says is written as it is, and arrivals are counted by subject."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.heard: set[bytes] = set()
        self.unwanted: set[bytes] = set()
        """Samples of which a publisher was told that nobody wants them."""
        self._task = asyncio.create_task(self._listen())

    @classmethod
    async def connect(cls, path: str, port: int) -> _Client:
        reader, writer = await asyncio.open_connection(HOST, port, limit=1 << 20)
        client = cls(reader, writer)
        options = _options(path, more=',"headers":true,"no_responders":true')
        await client.say(f"CONNECT {options}\r\nSUB _INBOX.storm.* 1\r\n".encode())
        return client

    async def say(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def _listen(self) -> None:
        while line := await self._reader.readline():
            words = line.split()
            if words[0] == b"PING":
                self._writer.write(b"PONG\r\n")
            elif words[0] in (b"MSG", b"HMSG"):
                await self._reader.readexactly(int(words[-1]) + 2)
                if words[0] == b"HMSG":
                    self.unwanted.add(words[1].rpartition(b".")[2])
                else:
                    self.heard.add(words[1])

    async def hears(self, count: int) -> None:
        """Wait until so many subjects were heard; not for ever."""
        for _ in range(500):
            if len(self.heard) >= count:
                return
            await asyncio.sleep(0.02)

    async def close(self) -> None:
        self._task.cancel()
        self._writer.close()
        await asyncio.gather(self._task, return_exceptions=True)


def _options(path: str, more: str = "") -> str:
    return f'{{"verbose":false,"pedantic":false,"user":"{path}","pass":"{path}","protocol":1{more}}}'


async def _storm(path: str, client: dict[str, int], count: int) -> dict[str, float]:
    """One storm through one path: what the stream suffered, and how long everything took."""
    subjects = [b"storm.subject.%06d" % number for number in range(count)]
    samples = [*subjects[:: count // SAMPLES], subjects[-1]]
    addresses: dict[str, BrokerAddress] = {name: (HOST, client[name], _options(path)) for name in "ac"}
    topic = ProbeTopic(STREAM, subscriber=addresses["c"], rate_msg_s=STREAM_MSG_S)
    async with ProbeTraffic(addresses["a"], [topic]) as traffic:
        await traffic.subscribe()
        clients = [await _Client.connect(path, client[name]) for name in "abc"]
        first, stormy, last = clients
        try:
            await _known(first, stormy)
            await traffic.publish()
            await asyncio.sleep(1.0)
            begun = time.monotonic()
            windows = [begun]
            await stormy.say(b"".join(b"SUB %b %d\r\n" % (each, sid) for sid, each in enumerate(subjects, 2)))
            served_s = await _served(first, last, stormy, samples) - begun
            await asyncio.sleep(1.0)
            windows.append(time.monotonic())
            stormy.heard.clear()
            for start in range(0, count, 1000):
                await first.say(
                    b"".join(b"PUB %b 0\r\n\r\n" % each for each in subjects[start : start + 1000])
                )
                await asyncio.sleep(0.02)
            await stormy.hears(count)
            all_heard = len(stormy.heard)
            begun = time.monotonic()
            windows.append(begun)
            await stormy.say(b"".join(b"UNSUB %d\r\n" % sid for sid in range(2, count + 2)))
            ended_s = await _ended(first, last, samples) - begun
            await asyncio.sleep(1.0)
            windows.append(time.monotonic())
            record = (await traffic.collect())[STREAM]
        finally:
            for each in clients:
                await each.close()
    sent_s = record.sent_ns[record.arrived] / 1e9
    delays_ms = record.arrived_ns / 1e6 - 1000 * sent_s
    # Between the two storms all subjects are published on, as fast as it goes: that is no matter of interest.
    worst_ms = [
        float(delays_ms[(sent_s >= start) & (sent_s < end)].max())
        for start, end in (windows[:2], windows[2:])
    ]
    return {
        "sent": len(record.sent_ns),
        "lost": len(record.sent_ns) - len(np.unique(record.arrived)),
        "worst_ms": worst_ms[0],
        "worst_ending_ms": worst_ms[1],
        "served_s": served_s,
        "subjects_served": all_heard,
        "ended_s": ended_s,
    }


async def _known(first: _Client, stormy: _Client) -> None:
    """Wait until the chain carries messages."""
    await stormy.say(b"SUB storm.begin 1000000\r\n")
    deadline = time.monotonic() + TIMEOUT_S
    while b"storm.begin" not in stormy.heard and time.monotonic() < deadline:
        await first.say(b"PUB storm.begin 0\r\n\r\n")
        await asyncio.sleep(0.05)


async def _served(first: _Client, last: _Client, stormy: _Client, samples: list[bytes]) -> float:
    """When publishers at both ends were heard on all samples; probes are repeated until they are."""
    deadline = time.monotonic() + TIMEOUT_S
    for publisher in (first, last):
        stormy.heard.difference_update(samples)
        while (missing := [each for each in samples if each not in stormy.heard]) and (
            time.monotonic() < deadline
        ):
            await publisher.say(b"".join(b"PUB %b 0\r\n\r\n" % each for each in missing))
            await asyncio.sleep(0.02)
    return time.monotonic()


async def _ended(first: _Client, last: _Client, samples: list[bytes]) -> float:
    """When publishers at both ends were told of all samples that nobody wants them."""
    deadline = time.monotonic() + TIMEOUT_S
    numbers = {b"%d" % number: subject for number, subject in enumerate(samples)}
    for publisher in (first, last):
        publisher.unwanted.clear()
        while (left := numbers.keys() - publisher.unwanted) and time.monotonic() < deadline:
            await publisher.say(
                b"".join(b"PUB %b _INBOX.storm.%b 0\r\n\r\n" % (numbers[each], each) for each in left)
            )
            await asyncio.sleep(0.02)
    return time.monotonic()


def missed(result: dict[str, object]) -> list[str]:
    """Nothing lost, nothing late, everything served in time."""
    paths = msgspec.convert(result["paths"], dict[str, dict[str, float]])
    many = msgspec.convert(result["many"], dict[str, float])
    count = msgspec.convert(result["subjects"], int)
    native, own = paths["native"], paths["mangrove"]
    found = _missed_with_keys(paths, count)
    if lost := own["lost"] + many.get("lost", 0):
        found.append(f"{lost:.0f} messages of the stream were lost")
    found += [
        f"a message of the stream took {own[key]:.0f} ms, more than {DELAY_BAR_MS:.0f}, {when}"
        for key, when in (("worst_ms", "while all subscribe"), ("worst_ending_ms", "while all unsubscribe"))
        if own[key] > DELAY_BAR_MS
    ]
    found += [
        f"{what} {own[key]:.1f} s, with native leaf nodes {native[key]:.1f} s"
        for key, what in (("served_s", "all were served after"), ("ended_s", "all had ended after"))
        if own[key] > max(SERVED_BAR_S, SERVED_BAR_RATIO * native[key])
    ]
    if own["subjects_served"] < count:
        found.append(f"only {own['subjects_served']:.0f} of {count} subjects are served")
    if many and many["subjects_served"] < MANY_SUBJECTS:
        found.append(f"only {many['subjects_served']:.0f} of {MANY_SUBJECTS} subjects are served")
    return found


def _missed_with_keys(paths: dict[str, dict[str, float]], count: int) -> list[str]:
    """With keys nothing is lost either, nothing late, and everything served in the time that is allowed."""
    if WITH_KEYS not in paths:
        return []
    keyed, native = paths[WITH_KEYS], paths["native"]
    found = []
    if keyed["lost"] or keyed["subjects_served"] < count:
        found.append(
            f"with keys {keyed['lost']:.0f} were lost, {keyed['subjects_served']:.0f} subjects served"
        )
    if (worst := max(keyed["worst_ms"], keyed["worst_ending_ms"])) > DELAY_BAR_MS:
        found.append(f"with keys a message of the stream took {worst:.0f} ms")
    if (served := max(keyed["served_s"], keyed["ended_s"])) > max(
        SERVED_BAR_S, SERVED_BAR_RATIO * min(native["served_s"], native["ended_s"])
    ):
        found.append(f"with keys it took {served:.1f} s until all were served, or had ended")
    return found


def render(result: dict[str, object], console: Console) -> None:
    """One table."""
    paths = msgspec.convert(result["paths"], dict[str, dict[str, float]])
    many = msgspec.convert(result["many"], dict[str, float])
    rows = [*paths.items(), *([("mangrove", many)] if many else [])]
    table = Table(
        f"Storms of subscriptions beside a steady stream; links of {result['delay_ms']:g} ms",
        name_column("chain"),
        *map(number_column, ("subjects", "served", "after", "worst", "ended after", "worst", "lost")),
    )
    counts = [msgspec.convert(result["subjects"], int)] * len(paths) + [MANY_SUBJECTS]
    for (name, figures), count in zip(rows, counts, strict=False):
        table.add(
            name,
            f"{count:,}",
            f"{figures['subjects_served']:,.0f}",
            f"{figures['served_s']:.2f} s",
            f"{figures['worst_ms']:.0f} ms",
            f"{figures['ended_s']:.2f} s",
            f"{figures['worst_ending_ms']:.0f} ms",
            f"{figures['lost']:,.0f}",
        )
    table.show(console)
    console.print(
        f"worst: longest delay of the stream while all subscribe, and while all end; "
        f"{min(figures['sent'] for _, figures in rows):,.0f} messages or more in each stream"
    )
    console.print(
        f"bars: nothing lost, no message over {DELAY_BAR_MS:.0f} ms, all served within {SERVED_BAR_S:.0f} s "
        f"or {SERVED_BAR_RATIO:.0f} times what the native chain needs"
    )
