"""The measurements of failover and overload measure: losses, duplicates and delays made on purpose are found.

Nothing here asserts how fast anything was; the benchmarks judge that.
"""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from pathlib import Path

import msgspec
import nats
import numpy as np
import pytest
from benchmarks import failover, overload
from nats.aio.msg import Msg

from mangrove.broker.nats.server import nats_server
from mangrove.host.ports import PortReservation
from mangrove.host.process import ManagedProcess
from mangrove.host.run_directory import RunDirectory
from mangrove.model.address import Address
from mangrove.testbed.accounting import Figures, Record, Span, figures
from mangrove.testbed.emulated_links import emulator
from mangrove.testbed.load import PLAIN_OPTIONS
from mangrove.testbed.native_pair import NativePair
from mangrove.testbed.probe_traffic import ProbeTopic, ProbeTraffic
from mangrove.testbed.shaping import Shape
from mangrove.testbed.wan import WanLink, WanSettings

MS = 1_000_000
ROOT = Path(__file__).parents[2]


def record(sent_ms: list[int], arrivals: list[tuple[int, int]]) -> Record:
    """A stream from (number, time) pairs in milliseconds."""
    return Record(
        np.array(sent_ms, dtype=np.int64) * MS,
        np.array([number for number, _ in arrivals], dtype=np.int64),
        np.array([when for _, when in arrivals], dtype=np.int64) * MS,
    )


def over(stream: Record, start_ms: int, end_ms: int) -> Figures:
    return figures(stream, Span(start_ms * MS, end_ms * MS), limit_ms=100)


def test_a_clean_stream() -> None:
    clean = over(record([0, 10, 20, 30], [(0, 5), (1, 15), (2, 25), (3, 35)]), 0, 100)
    assert (clean.sent, clean.delivered, clean.lost, clean.duplicated, clean.late) == (4, 4, 0, 0, 0)
    assert (clean.longest_latency_ms, clean.p50_ms, clean.longest_gap_ms) == (5.0, 5.0, 10.0)
    assert clean.in_time_ratio == 1.0


def test_losses_duplicates_and_lateness_belong_to_the_phase_of_sending() -> None:
    sent = list(range(0, 400, 10))
    arrivals = [(number, 10 * number + 5) for number in range(40) if number not in (12, 13)]
    arrivals += [(11, 390), (11, 391), (35, 392)]
    arrivals[5] = (5, 300)  # sent at 50 ms: late
    stream = record(sent, arrivals)
    first, second, third = over(stream, 0, 100), over(stream, 100, 300), over(stream, 300, 400)
    assert [f.sent for f in (first, second, third)] == [10, 20, 10]
    assert [f.lost for f in (first, second, third)] == [0, 2, 0]
    assert [f.duplicated for f in (first, second, third)] == [0, 2, 1]
    assert [f.late for f in (first, second, third)] == [1, 0, 0]
    assert first.longest_latency_ms == 250.0
    assert (first.in_time_ratio, second.in_time_ratio) == (0.9, 0.9)
    assert second.longest_gap_ms == 30.0


def test_a_silence_belongs_to_the_phase_that_holds_its_middle() -> None:
    """Delivery stops a moment before the failure at 100 ms and is back a moment after its end at 300 ms."""
    sent = list(range(0, 400, 10))
    stream = record(sent, [(n, t + 5 if not 90 <= t < 300 else 301 + n % 3) for n, t in enumerate(sent)])
    assert over(stream, 100, 300).longest_gap_ms == 301 - 85
    assert over(stream, 0, 100).longest_gap_ms == 15.0
    assert over(stream, 300, 400).longest_gap_ms <= 10.0


def test_a_stream_that_never_arrives_is_one_silence() -> None:
    dead = over(record([0, 10, 20], []), 0, 100)
    assert (dead.lost, dead.longest_gap_ms, dead.p50_ms, dead.in_time_ratio) == (3, 20.0, None, 0.0)
    assert over(record([], []), 0, 100).in_time_ratio is None


def test_an_arrival_of_what_was_never_sent_is_an_error() -> None:
    with pytest.raises(ValueError, match="never sent"):
        record([0, 10], [(2, 15)])


async def test_probes_find_what_a_tampering_path_did(tmp_path: Path) -> None:
    """A client carries messages between two brokers, swallows every tenth and repeats every seventh."""
    with PortReservation() as ports:
        near, far = ports.take("127.0.0.1"), ports.take("127.0.0.1")
        servers: list[ManagedProcess] = [
            nats_server(f"server-{port}", f'listen: "127.0.0.1:{port}"\n', tmp_path) for port in (near, far)
        ]
        try:
            for server in servers:
                await server.start()
            into = await nats.connect(f"nats://127.0.0.1:{far}")
            carried = 0

            async def carry(message: Msg) -> None:
                nonlocal carried
                carried += 1
                copies = 0 if carried % 10 == 0 else 2 if carried % 7 == 0 else 1
                for _ in range(copies):
                    await into.publish(message.subject, message.data)

            source = await nats.connect(f"nats://127.0.0.1:{near}")
            await source.subscribe("tampered", cb=carry)
            await source.flush()
            topic = ProbeTopic("tampered", 400.0, ("127.0.0.1", far, PLAIN_OPTIONS))
            async with ProbeTraffic(("127.0.0.1", near, PLAIN_OPTIONS), [topic]) as traffic:
                await traffic.subscribe()
                await traffic.publish()
                await asyncio.sleep(1.0)
                stream = (await traffic.collect())["tampered"]
            await source.close()
            await into.close()
        finally:
            for server in servers:
                await server.stop()
    found = figures(stream, Span(0, 1 << 62), limit_ms=1e9)
    assert found.sent == carried > 100
    assert found.lost == carried // 10
    assert found.duplicated == carried // 7 - carried // 70
    assert found.late == 0


async def test_a_native_pair_delays_what_a_short_black_hole_holds(tmp_path: Path) -> None:
    async with NativePair(tmp_path, Shape(delay_ms=5), seed=1) as pair:
        topic = ProbeTopic("held", 200.0, pair.far)
        async with ProbeTraffic(pair.near, [topic]) as traffic:
            await traffic.subscribe()
            await asyncio.sleep(0.5)
            await traffic.publish()
            await pair.black_hole(True)
            await asyncio.sleep(1.0)
            await pair.black_hole(False)
            await asyncio.sleep(0.2)
            stream = (await traffic.collect())["held"]
    found = figures(stream, Span(0, 1 << 62), limit_ms=500)
    assert (found.lost, found.duplicated) == (0, 0)
    assert found.late > 0
    assert found.longest_gap_ms > 500


PERFECT = Figures(
    sent=1000,
    delivered=1000,
    lost=0,
    duplicated=0,
    late=0,
    in_time_ratio=1.0,
    longest_gap_ms=20.0,
    longest_send_gap_ms=2.0,
    longest_latency_ms=40.0,
    p50_ms=11.0,
    p99_ms=12.0,
)


def failover_result(**flaws: dict[str, Figures]) -> dict[str, object]:
    """A perfect run but for these topics of these phases."""
    names = {"hole": failover.BLACK_HOLE, "back": failover.LINK_RETURNS, "dead": failover.SITE_DIES}
    phases = {
        phase: dict.fromkeys((*failover.SUBJECTS, failover.NATIVE), PERFECT)
        for phase in (failover.STEADY, *names.values(), failover.SITE_RETURNS)
    }
    for name, topics in flaws.items():
        phases[names[name]] |= topics
    return {"phases": phases}


def flawed(**changes: float) -> Figures:
    return msgspec.structs.replace(PERFECT, **changes)


@pytest.mark.parametrize(
    ("flaws", "words"),
    [
        ({}, None),
        ({"hole": {"paths: 2": flawed(late=1)}}, "1 messages took over 100 ms"),
        ({"hole": {"paths: 1": flawed(late=1)}}, None),
        ({"hole": {"paths: 1": flawed(longest_gap_ms=200.0)}}, "a gap of 200 ms"),
        ({"hole": {"paths: 1": flawed(lost=1)}}, "1 of 1000 messages lost"),
        ({"hole": {"paths: 2": flawed(duplicated=1)}}, "1 messages delivered again"),
        ({"back": {"paths: 1": flawed(longest_gap_ms=100.0)}}, "a gap of 100 ms"),
        ({"back": {"paths: 1": flawed(duplicated=1)}}, "1 messages delivered again"),
        ({"dead": {"paths: 2": flawed(lost=1)}}, "1 of 1000 messages lost"),
        ({"dead": {"transit": flawed(lost=1)}}, None),
        ({"hole": {"native": flawed(lost=1000, longest_gap_ms=30_000.0)}}, None),
    ],
)
def test_each_bar_of_failover_is_judged(flaws: dict[str, dict[str, Figures]], words: str | None) -> None:
    problems = failover.missed(failover_result(**flaws))
    assert len(problems) == (0 if words is None else 1)
    assert words is None or words in problems[0]


@pytest.mark.parametrize(("ratio", "count"), [(1.0, 0), (0.991, 0), (0.99, 1), (0.0, 1)])
def test_the_bar_of_overload_is_judged(ratio: float, count: int) -> None:
    row = msgspec.structs.asdict(flawed(in_time_ratio=ratio)) | {"deadline_ms": 100.0, "dropped": {}}
    runs = {name: dict.fromkeys(overload.CLASSES, row) for name in (overload.CONFIGURED, overload.FIFO)}
    assert len(overload.missed({"runs": runs})) == count


@pytest.mark.parametrize(
    ("shape", "least", "most"),
    [
        (Shape(delay_ms=10, bandwidth_mbps=20, black_hole=True), 64 << 10, 256 << 10),
        (Shape(delay_ms=10, black_hole=True), 4 << 20, 64 << 20),
    ],
    ids=["narrow", "fast"],
)
async def test_a_narrow_link_leaves_the_queue_to_its_sender(
    tmp_path: Path, shape: Shape, least: int, most: int
) -> None:
    """How much a link takes that lets nothing out is how much it can hold."""
    with PortReservation() as ports, socket.create_server(("127.0.0.1", 0)) as target:
        control, relay = (Address("127.0.0.1", ports.take("127.0.0.1")) for _ in range(2))
        link = WanLink(name="x", listen=relay, target=target.getsockname(), shape=shape)
        wan = emulator(WanSettings(control=control, links=(link,), seed=1), RunDirectory(tmp_path))
        await wan.start()
        try:
            taken = await asyncio.to_thread(fill, relay, most)
        finally:
            await wan.stop()
    assert least <= taken < most


def fill(address: tuple[str, int], most: int) -> int:
    """Send until nothing is taken any more; the sender's own buffer is small."""
    taken = 0
    with socket.socket() as sender:
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        sender.connect(address)
        sender.settimeout(1.0)
        try:
            while taken < most:
                taken += sender.send(b"x" * 65536)
        except TimeoutError:
            pass
    return taken


@pytest.mark.soak
@pytest.mark.parametrize("name", ["failover", "overload"])
def test_quick_runs_print_the_documented_fields(name: str) -> None:
    """A missed bar (exit status 1) is an answer too; the fields are there either way."""
    done = subprocess.run(
        [sys.executable, "-m", "mangrove.cli.main", "bench", name, "--quick", "--json"],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    result = json.loads(done.stdout)
    assert result["benchmark"] == name
    assert (done.returncode == 1) == bool(result["missed"])
    fields = set(Figures.__struct_fields__)
    if name == "failover":
        phases = ["steady", "black hole", "link returns", "transit site dies", "site returns"]
        assert list(result["phases"]) == phases
        for phase in phases[:3]:
            assert set(result["phases"][phase]) == {"paths: 2", "paths: 1", "transit", "native"}
        for topics in result["phases"].values():
            assert all(set(row) == fields for row in topics.values())
    else:
        assert set(result["runs"]) == {"as configured", "FIFO"}
        for classes in result["runs"].values():
            assert set(classes) == {"tight", "loose", "best effort"}
            assert all(set(row) == fields | {"deadline_ms", "dropped"} for row in classes.values())
