"""`mangrove evaluate` on a real cluster: an executor is lost, a run is interrupted, numbers stay."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pyarrow.dataset as ds
import pytest
from tests.kit.spark_cluster import PATIENCE_S, Cluster, connect_server, environment, standalone

from mangrove.host.ports import PortReservation

pytestmark = [pytest.mark.timeout(1000), pytest.mark.soak]

SEEDS = 60


@pytest.fixture
def port() -> Iterator[int]:
    """A port of 127.0.0.1 that is held until the test ends; Java servers can listen on it."""
    with PortReservation() as ports:
        yield ports.take("127.0.0.1")


@contextlib.contextmanager
def evaluating(results: Path, *where: str) -> Iterator[subprocess.Popen[str]]:
    """A run that is ended at the end, if it has not ended by itself."""
    command = ("evaluate", "leaders", "--seeds", str(SEEDS), "--results", str(results), "--json", *where)
    process = subprocess.Popen(
        [sys.executable, "-m", "mangrove.cli.main", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def finish(process: subprocess.Popen[str]) -> str:
    """What it says in the end."""
    output, errors = process.communicate(timeout=2 * PATIENCE_S)
    assert process.returncode == 0, errors[-3000:]
    return output


def here(results: Path) -> str:
    """The same run in one process of this machine."""
    with evaluating(results, "--workers", "1") as process:
        return finish(process)


def outcomes(results: Path) -> list[tuple[int, str]]:
    rows = ds.dataset(sorted(map(str, results.glob("*.parquet")))).to_table(["seed", "result"]).to_pylist()
    return sorted((row["seed"], row["result"]) for row in rows)


def wait_for_work(cluster: Cluster, application: int, process: subprocess.Popen[str]) -> None:
    """Until both workers' executors have finished some tasks."""
    deadline = time.monotonic() + PATIENCE_S
    while not all("Finished task" in cluster.executor_log(worker, application) for worker in range(2)):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "no executor has done anything"
        time.sleep(0.1)


def test_a_cluster_with_losses_gives_what_this_machine_gives(port: int, tmp_path: Path) -> None:
    alone = here(tmp_path / "here")
    with standalone(tmp_path, port) as cluster:
        away = ("--master", cluster.url)
        with evaluating(tmp_path / "there", *away) as process:
            wait_for_work(cluster, 0, process)
            below = psutil.Process(process.pid).children(recursive=True)
            assert below, "the driver's JVM"
            process.send_signal(signal.SIGINT)
            errors = process.communicate(timeout=PATIENCE_S)[1]
            assert process.returncode != 0
            assert "left (run again to go on)" in errors
            assert "Traceback" not in errors
            assert psutil.wait_procs(below, timeout=60)[1] == [], "no JVM is left"
        with evaluating(tmp_path / "there", *away) as process:
            wait_for_work(cluster, 1, process)
            assert cluster.kill_executors(0) == 1
            assert finish(process) == alone
    assert outcomes(tmp_path / "there") == outcomes(tmp_path / "here")
    assert [seed for seed, _ in outcomes(tmp_path / "there")] == list(range(1, SEEDS + 1))


def test_spark_connect_gives_what_this_machine_gives(port: int, tmp_path: Path) -> None:
    alone = here(tmp_path / "here")
    with (
        connect_server(tmp_path, port) as remote,
        evaluating(tmp_path / "there", "--remote", remote) as process,
    ):
        assert finish(process) == alone
    assert outcomes(tmp_path / "there") == outcomes(tmp_path / "here")
