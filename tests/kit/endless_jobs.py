"""Jobs in processes of their own that never end by themselves (`tests.kit.spark_job`); tests end them."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
from tests.kit.spark_processes import PATIENCE_S, environment


def job_command(directory: Path, *options: str) -> tuple[str, ...]:
    """The command of a job that writes to `directory/out`."""
    return sys.executable, "-m", "tests.kit.spark_job", str(directory / "out"), *options


@contextlib.contextmanager
def endless_job(directory: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """The job, when its tasks run; ended at the end."""
    process = subprocess.Popen(
        job_command(directory, *options),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        start_new_session=True,
    )
    try:
        until((directory / "out.running").exists, process)
        yield process
    finally:
        process.kill()
        process.communicate()


def until(happened: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Wait for something that a process is to do, for as long as it lives."""
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        assert process.poll() is None, process.communicate()[1][-3000:]
        assert time.monotonic() < deadline
        time.sleep(0.05)


def java_of(process: subprocess.Popen[str]) -> psutil.Process:
    """The Java process of a job."""
    (child,) = [each for each in psutil.Process(process.pid).children() if each.name() == "java"]
    return child


def gone(process: psutil.Process) -> bool:
    """Whether it has ended."""
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def nothing_written(directory: Path) -> bool:
    """Whether a job left nothing but the mark that it ran."""
    return {path.name for path in directory.iterdir()} <= {"out.running"}


def of_spark(text: str) -> bool:
    """Whether it looks like something that Spark or Python wrote, not we."""
    return any(each in text for each in ("Traceback", "py4j", "spark: ", "java.", "WARN", "ERROR"))
