"""How a Spark session ends when it does not end well: real processes, interrupted, killed, or left alone."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.kit.endless_jobs import endless_job, gone, java_of, job_command, nothing_written, of_spark
from tests.kit.spark_cluster import PATIENCE_S, connect_process, environment, standalone

from mangrove.host.ports import PortReservation

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def port() -> Iterator[int]:
    """A port of 127.0.0.1 that is held until the test ends; Java servers can listen on it."""
    with PortReservation() as ports:
        yield ports.take("127.0.0.1")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_job_leaves_no_process_and_no_trace(number: signal.Signals, tmp_path: Path) -> None:
    with endless_job(tmp_path, "--master", "local[2]") as process:
        java = java_of(process)
        workers = java.children(recursive=True)
        os.killpg(process.pid, number)  # as a terminal or a service manager does
        _, said = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 130
    assert gone(java)
    _, alive = psutil.wait_procs(workers, 30)
    assert not alive
    assert nothing_written(tmp_path)
    assert not of_spark(said)


def test_a_killed_driver_leaves_nothing_that_the_next_run_does_not_clear(tmp_path: Path) -> None:
    with endless_job(tmp_path, "--master", "local[2]") as process:
        java = java_of(process)
        everybody = [java, *java.children(recursive=True)]
        process.kill()
        process.wait()
    _, alive = psutil.wait_procs(everybody, 60)
    assert not alive
    assert not (tmp_path / "out").exists()
    (left,) = tmp_path.glob(".out.mangrove-*")
    # Java that dies under a job, at the same time: the message says what to do.
    (tmp_path / "out.running").unlink()
    with endless_job(tmp_path, "--master", "local[2]") as process:
        assert not left.exists()
        java_of(process).kill()
        _, said = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 1
    assert "error: Spark at local[2] failed while the job was running" in said
    assert "hint: nothing was written" in said
    assert "Traceback" not in said
    assert nothing_written(tmp_path)
    # The log is kept for whoever wants to know more, and named.
    log = Path(said.rpartition("Spark's log: ")[2].strip())
    assert log.exists()
    shutil.rmtree(log.parent)


def test_a_cluster_that_goes_away_is_a_message(port: int, tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    with standalone(tmp_path, port, workers=1) as cluster:
        url = cluster.url
        with endless_job(tmp_path / "results", "--master", url) as process:
            java = java_of(process)
            cluster.workers[0].kill()
            cluster.master.kill()
            _, said = process.communicate(timeout=PATIENCE_S)
            assert process.returncode == 1
    assert f"error: the cluster at {url} has had no machine for the job for 3 s" in said
    assert "start its workers" in said
    assert not of_spark(said)
    assert gone(java)
    assert nothing_written(tmp_path / "results")


@pytest.mark.soak
def test_a_connect_server_that_goes_away_is_a_message(port: int, tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    with connect_process(tmp_path, port) as server:
        url = server.url
        # Out of time: the server is told, so that its tasks end.
        limited = job_command(tmp_path / "results", "--remote", url, "--time-limit", "4")
        ended = subprocess.run(
            limited, capture_output=True, text=True, timeout=PATIENCE_S, check=False, env=environment()
        )
        assert ended.returncode == 1
        assert "error: the run: cancelled after the time limit of 4 s" in ended.stderr
        assert nothing_written(tmp_path / "results")
        (tmp_path / "results" / "out.running").unlink(missing_ok=True)
        with endless_job(tmp_path / "results", "--remote", url) as process:
            server.process.kill()
            _, said = process.communicate(timeout=PATIENCE_S)
            assert process.returncode == 1
    assert f"error: Spark at {url} failed while the job was running" in said
    assert "run the same command again" in said
    assert "Traceback" not in said
    assert nothing_written(tmp_path / "results")
