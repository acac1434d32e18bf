"""A Spark cluster on this machine: master, workers and Connect server as processes that a test owns."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark

HOME = Path(pyspark.__file__).parent
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
PATIENCE_S = 240


def environment() -> dict[str, str]:
    return {
        **os.environ,
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
        "PYSPARK_PYTHON": sys.executable,
        "OPENBLAS_NUM_THREADS": "1",
        # Java that lives for seconds starts faster if it does not optimise.
        "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1",
    }


@contextlib.contextmanager
def running(log: Path, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is ended at the end."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment())
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_for(text: str, log: Path, process: subprocess.Popen[bytes], times: int = 1) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while log.read_text(errors="replace").count(text) < times:
        assert process.poll() is None, log.read_text(errors="replace")[-3000:]
        assert time.monotonic() < deadline, f"{text!r} did not appear:\n{log.read_text()[-3000:]}"
        time.sleep(0.1)
