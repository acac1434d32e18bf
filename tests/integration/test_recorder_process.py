"""The recorder beside `mangrove up`: with 100,000 subscriptions, killed, or stopped, nobody else notices."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow.dataset as ds
import pytest
from tests.kit.ports import PortBlocks
from tests.kit.processor_waits import ProcessorWaits

from mangrove.host.run_directory import RunDirectory
from mangrove.host.runtime_file import read_runtime
from mangrove.lake.files import list_table
from mangrove.model.telemetry import TABLES

SUBSCRIPTIONS = 100_000
# `mangrove up` ends within 5 s of Ctrl-C; the rest is for a machine that has other things to do.
STOP_S = 8.0


@contextlib.contextmanager
def timed(*processes: psutil.Process | subprocess.Popen[bytes]) -> Iterator[Callable[[], float]]:
    """Tells the seconds since the beginning, less those for which the machine kept one of these waiting."""
    waits = ProcessorWaits([each.pid for each in processes])
    waits.start()
    start = time.monotonic()

    def so_far_s() -> float:
        now = time.monotonic()
        waits.settle()
        return waits.between(start, now)

    try:
        yield so_far_s
    finally:
        waits.stop()


class Up:
    """`mangrove up` of two domains in a process of its own."""

    def __init__(self, directory: Path, base_ports: tuple[int, int]) -> None:
        self.run = directory / "run"
        self.said = directory / "said.txt"
        file = directory / "pair.yaml"
        file.write_text(
            "federation: pair\nsecurity: none\n"
            f"domains:\n  east: {{base_port: {base_ports[0]}, edges: 1}}\n"
            f"  west: {{base_port: {base_ports[1]}}}\n"
            "links:\n  - {between: [east, west], delay_ms: 1}\n"
        )
        with self.said.open("wb") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "mangrove.cli.main", "up", str(file), "--run-dir", str(self.run)],
                stdout=subprocess.DEVNULL,
                stderr=said,
            )
        self.wait_until(lambda: "Running." in self.text(), "it should run", 60.0)

    @property
    def lake(self) -> Path:
        return self.run / "telemetry"

    def text(self) -> str:
        return self.said.read_text(errors="replace")

    def wait_until(self, condition: Callable[[], bool], what: str, timeout_s: float = 30.0) -> None:
        start = time.monotonic()
        while not condition():
            assert time.monotonic() - start < timeout_s, f"{what}; it said:\n{self.text()}"
            assert self.process.poll() is None, self.text()
            time.sleep(0.02)

    def child(self, name: str) -> psutil.Process:
        children = psutil.Process(self.process.pid).children()
        return next(child for child in children if any(name in part for part in child.cmdline()))

    def back_after_s(self, name: str, restarts: int) -> float:
        """Kill a child, and see how long it takes until it is back."""
        back = f"{name} is back (restart {restarts})"
        with timed(self.process) as so_far_s:
            self.child(f"{name}.").kill()
            self.wait_until(lambda: back in self.text(), back)
            return so_far_s()

    def interrupt(self) -> float:
        """Ctrl-C; seconds until everything is gone."""
        everything = [*psutil.Process(self.process.pid).children(recursive=True)]
        with timed(self.process, *everything) as so_far_s:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(60)
            took_s = so_far_s()
        _, alive = psutil.wait_procs(everything, timeout=5)
        assert not alive
        return took_s

    def rows(self, table: str, *columns: str) -> list[dict[str, Any]]:
        """What the lake holds at this moment; its writer may merge files while they are read."""
        while (self.lake / table).is_dir():
            files = [each.path for each in list_table(str(self.lake), TABLES[table]).files]
            try:
                found = [ds.dataset(file, format="parquet").to_table(list(columns)) for file in files]
            except FileNotFoundError:
                continue
            return [row for each in found for row in each.to_pylist()]
        return []

    def events(self) -> list[tuple[str, str]]:
        return [(row["kind"], row["detail"]) for row in self.rows("events", "kind", "detail")]

    def starts(self) -> int:
        """How often a recorder has begun with a domain."""
        return [kind for kind, _ in self.events()].count("recorder_started")


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    with PortBlocks() as ports:
        running = Up(tmp_path, (ports.take(), ports.take()))
        try:
            yield running
        finally:
            if running.process.poll() is None:
                running.process.kill()
                running.process.wait()


async def subscribe(port: int) -> asyncio.StreamWriter:
    """One client that makes all subscriptions at once."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    writer.write(b'CONNECT {"verbose":false}\r\n')
    writer.write(
        b"".join(b"SUB plant.line%03d.sensor%06d %d\r\n" % (n % 500, n, n) for n in range(SUBSCRIPTIONS))
    )
    writer.write(b"PING\r\n")
    async with asyncio.timeout(30):
        while not (await reader.readline()).startswith(b"PONG"):
            pass
    return writer


def test_a_hundred_thousand_subscriptions_at_once(up: Up) -> None:
    without_s = up.back_after_s("east-edge1", 1)

    async def with_them() -> tuple[float, float]:
        writer = await subscribe(read_runtime(RunDirectory(up.run)).domains["east"].head.client_port)
        try:
            told = "subscriptions not looked at at east-head"
            await asyncio.to_thread(
                up.wait_until,
                lambda: any(kind == "left_out" and told in detail for kind, detail in up.events()),
                "the recorder should have looked at them, and told what it leaves out",
            )
            restarted_s = await asyncio.to_thread(up.back_after_s, "east-edge1", 2)
            return restarted_s, await asyncio.to_thread(up.interrupt)
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    restarted_s, stopped_s = asyncio.run(with_them())
    assert restarted_s < without_s + 3.0
    assert stopped_s < STOP_S
    assert list_table(str(up.lake), TABLES["broker_samples"]).require().skipped == []


def test_a_recorder_that_is_killed_comes_back_and_one_that_hangs_holds_nobody_up(up: Up) -> None:
    brokers = {child.pid for child in psutil.Process(up.process.pid).children() if "nats" in child.name()}
    up.wait_until(lambda: up.starts() == 2, "it records both domains")
    up.back_after_s("recorder", 1)
    recorder = up.child("recorder.")
    up.wait_until(lambda: up.starts() == 4, "it goes on to record")
    os.kill(recorder.pid, signal.SIGSTOP)
    children = {child.pid for child in psutil.Process(up.process.pid).children()}
    assert brokers < children, "no broker was restarted"
    assert up.interrupt() < STOP_S


def test_a_recorder_that_is_told_to_stop_has_written_everything(up: Up) -> None:
    up.wait_until(lambda: (up.lake / "broker_samples").exists(), "something is recorded")
    assert up.interrupt() < STOP_S
    assert [kind for kind, _ in up.events()].count("recorder_stopped") == 2
    newest = max(row["ts"].timestamp() for row in up.rows("broker_samples", "ts"))
    stopped = max(
        row["ts"].timestamp() for row in up.rows("events", "ts", "kind") if row["kind"] == "recorder_stopped"
    )
    assert stopped - newest < 3.5, "also the last second"


def test_settings_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    (tmp_path / "recorder.json").write_text('{"federation": {}}')
    run = subprocess.run(
        [sys.executable, "-m", "mangrove.agent.recorder.daemon", str(tmp_path / "recorder.json")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 2
    assert "error: cannot read the settings" in run.stderr
    assert "Traceback" not in run.stderr
