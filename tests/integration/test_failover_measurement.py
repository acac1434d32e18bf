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

import nats
import pytest
from nats.aio.msg import Msg

from mangrove.broker.nats.server import nats_server
from mangrove.host.ports import PortReservation
from mangrove.host.process import ManagedProcess
from mangrove.host.run_directory import RunDirectory
from mangrove.model.address import Address
from mangrove.testbed.accounting import Figures, Span, figures
from mangrove.testbed.emulated_links import emulator
from mangrove.testbed.load import PLAIN_OPTIONS
from mangrove.testbed.pairs.native_pair import NativePair
from mangrove.testbed.probe_traffic import ProbeTopic, ProbeTraffic
from mangrove.testbed.shaping import Shape
from mangrove.testbed.wan import WanLink, WanSettings, Way

ROOT = Path(__file__).parents[2]


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
                await asyncio.sleep(1.0)  # so long is the stream
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
            await pair.wants("held")
            await traffic.publish()
            await pair.black_hole(True)
            await asyncio.sleep(1.0)  # so long is the black hole
            await pair.black_hole(False)
            await asyncio.sleep(0.2)  # and so long the stream goes on
            stream = (await traffic.collect())["held"]
    found = figures(stream, Span(0, 1 << 62), limit_ms=500)
    assert (found.lost, found.duplicated) == (0, 0)
    assert found.late > 0
    assert found.longest_gap_ms > 500


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
        link = WanLink(name="x", ways=(Way(listen=relay, target=target.getsockname()),), shape=shape)
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
            assert set(result["phases"][phase]) == {"paths: 2", "paths: 1", "default", "transit", "native"}
        for topics in result["phases"].values():
            assert all(set(row) == fields for row in topics.values())
    else:
        assert set(result["runs"]) == {"laxity", "budgets", "FIFO"}
        for classes in result["runs"].values():
            assert {name.partition(",")[0] for name in classes} == {"tight", "loose", "best effort"}
            assert all(set(row) == fields | {"deadline_ms", "dropped"} for row in classes.values())
