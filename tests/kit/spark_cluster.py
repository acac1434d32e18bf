"""A standalone Spark cluster, or a Spark Connect server, of real processes that a test owns."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.kit.spark_processes import (
    CONNECT,
    HOME,
    MASTER,
    PATIENCE_S,
    WORKER,
    environment,
    running,
    wait_for,
)

__all__ = [
    "PATIENCE_S",
    "Cluster",
    "ConnectServer",
    "connect_process",
    "connect_server",
    "environment",
    "standalone",
]


@dataclass(frozen=True)
class Cluster:
    """A master and its workers, each with one core."""

    url: str
    directory: Path
    workers: tuple[subprocess.Popen[bytes], ...]
    master: subprocess.Popen[bytes]

    def executor_log(self, worker: int, application: int) -> str:
        """What executors of a worker have written for the first, second … application."""
        logs = (self.directory / f"work{worker}").glob(f"app-*-{application:04}/*/stderr")
        return "".join(log.read_text(errors="replace") for log in logs)

    def kill_executors(self, worker: int) -> int:
        """Kill the executors of a worker, as a lack of memory would; how many there were."""
        pid = self.workers[worker].pid
        children = [
            int(child)
            for thread in Path(f"/proc/{pid}/task").iterdir()
            for child in (thread / "children").read_text().split()
        ]
        for child in children:
            os.kill(child, signal.SIGKILL)
        return len(children)


@dataclass(frozen=True)
class ConnectServer:
    """Where it listens, and its process."""

    url: str
    process: subprocess.Popen[bytes]


@contextlib.contextmanager
def standalone(directory: Path, port: int, workers: int = 2) -> Iterator[Cluster]:
    """A master on a port of this machine, and workers that have found it."""
    url = f"spark://127.0.0.1:{port}"
    run_class = str(HOME / "bin" / "spark-class")
    log = directory / "master.log"
    with contextlib.ExitStack() as stack:
        options = ("--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
        master = stack.enter_context(running(log, run_class, MASTER, *options))
        wait_for("I have been elected leader", log, master)
        started = []
        for number in range(workers):
            size = ("--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0")
            place = ("--work-dir", str(directory / f"work{number}"), url)
            worker = running(directory / f"worker{number}.log", run_class, WORKER, *size, *place)
            started.append(stack.enter_context(worker))
        wait_for("Registering worker", log, master, times=workers)
        yield Cluster(url, directory, tuple(started), master)


@contextlib.contextmanager
def connect_server(directory: Path, port: int) -> Iterator[str]:
    """A Spark Connect server with two cores; its address."""
    with connect_process(directory, port) as server:
        yield server.url


@contextlib.contextmanager
def connect_process(directory: Path, port: int) -> Iterator[ConnectServer]:
    """A Spark Connect server with two cores."""
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
    }
    options = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    command = [str(HOME / "bin" / "spark-submit"), "--class", CONNECT, "--master", "local[2]", *options]
    log = directory / "connect.log"
    with running(log, *command) as server:
        wait_for("Spark Connect server started", log, server)
        yield ConnectServer(f"sc://127.0.0.1:{port}", server)
