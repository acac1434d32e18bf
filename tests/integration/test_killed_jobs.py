"""Drivers, executors and streams that are killed in the middle of jobs: the next run gives the same bytes.

Processes are killed with SIGKILL when they are seen to work; each run is a command in a process of its own.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest
from tests.kit.endless_jobs import until
from tests.kit.spark_cluster import PATIENCE_S, environment, standalone

from mangrove.host.ports import PortReservation
from mangrove.pipelines.synthetic.operations import SyntheticOperations, generate_operations

pytestmark = [pytest.mark.timeout(1800), pytest.mark.soak]

START = datetime(2026, 3, 2, 23, 45, tzinfo=UTC)
LATER = "date=2026-03-03"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Samples of half an hour, over midnight."""
    path = tmp_path_factory.mktemp("killed") / "lake"
    generate_operations(SyntheticOperations(seconds=1800, start=START, rate=1, mean_up_s=300.0), path)
    return path


@pytest.fixture(scope="module")
def expected(lake: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What a run gives that nobody disturbs."""
    output = tmp_path_factory.mktemp("undisturbed") / "out"
    with running(lake, output, "--master", "local[2]") as process:
        _, said = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, said[-3000:]
    return written(output)


@contextlib.contextmanager
def running(lake: Path, output: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """`pipeline availability` in a process and group of its own; killed at the end, Java and workers too."""
    place = ("--input", str(lake), "--output", str(output), *options)
    process = subprocess.Popen(
        (sys.executable, "-m", "mangrove.cli.main", "pipeline", "availability", *place),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        start_new_session=True,
    )
    try:
        yield process
    finally:
        kill_all(process)
        process.communicate()


def kill_all(process: subprocess.Popen[str]) -> None:
    """The process and all that it started, at once."""
    try:
        everybody = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return
    for each in everybody:
        try:
            os.kill(each.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    psutil.wait_procs(everybody[1:], 60)


def written(output: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in output.iterdir()}


def finished(lake: Path, output: Path, *options: str) -> dict[str, bytes]:
    with running(lake, output, *options) as process:
        _, said = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, said[-3000:]
    return written(output)


def writes(state: Path) -> bool:
    """Whether a job has begun to write partial results."""
    return any(state.glob("*/.writing-*")) or any(state.glob("*/date=*/domain=*/run-*"))


def test_a_killed_driver_leaves_a_state_that_the_next_run_takes_up(
    lake: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    state, output = tmp_path / "state", tmp_path / "out"
    where = ("--master", "local[2]", "--state", str(state))
    for _ in range(2):
        with running(lake, output, *where) as process:
            until(lambda: writes(state), process)
        assert not output.exists()
    assert finished(lake, output, *where) == expected
    assert not list(state.glob("*/.writing-*"))


def test_a_killed_stream_goes_on_and_gives_what_a_batch_gives(
    lake: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    copy, state, output = tmp_path / "lake", tmp_path / "state", tmp_path / "out"
    shutil.copytree(lake, copy)
    later = list(copy.glob(f"*/{LATER}"))
    for folder in later:
        folder.rename(folder.with_name(f".{LATER}"))
    where = ("--master", "local[2]", "--state", str(state), "--stream")
    with running(copy, output, *where, "--seconds", "1000") as process:
        until(output.exists, process)
        first = written(output)
        for folder in later:
            folder.with_name(f".{LATER}").rename(folder)
        # Killed in the middle of the second batch: what was not published is not there.
        until(lambda: any(state.glob("*/.writing-2")) or any(state.glob("*/*/*/run-2")), process)
    assert written(output) in (first, expected)
    assert finished(copy, output, *where) == expected


@pytest.fixture
def port() -> Iterator[int]:
    with PortReservation() as ports:
        yield ports.take("127.0.0.1")


def test_killed_executors_cost_time_and_nothing_else(
    lake: Path, expected: dict[str, bytes], port: int, tmp_path: Path
) -> None:
    state, output = tmp_path / "state", tmp_path / "out"
    with (
        standalone(tmp_path, port) as cluster,
        running(lake, output, "--master", cluster.url, "--state", str(state)) as process,
    ):
        until(lambda: writes(state), process)
        assert cluster.kill_executors(0) + cluster.kill_executors(1)
        _, said = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, said[-3000:]
    assert written(output) == expected
