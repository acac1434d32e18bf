"""`profile` on a standalone Spark cluster of 1, 2 and 4 single-core workers: what is serial, from task times.

Master and workers are processes of this machine, started from the pyspark package. Speed-up is not claimed:
the workers share the machine's cores. What counts is how much of the time no task ran (the driver's share),
and how much of the workers' time was not spent in tasks (the driver, and stages that wait for their longest
task). Both come from Spark's event log of a run that was preceded by the same one.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

from mangrove.cli.tables.table import Table, name_column, number_column
from mangrove.host.ports import PortReservation

WORKERS = (1, 2, 4)
FULL = (1000, 43200)
QUICK = (40, 7200)
SERIAL_BAR = 0.15
PATIENCE_S = 120


def run(seed: int, quick: bool) -> dict[str, Any]:
    """The same lake with each number of workers."""
    from mangrove.pipelines.synthetic.rates import SyntheticRates, generate

    topics, seconds = QUICK if quick else FULL
    with tempfile.TemporaryDirectory(prefix="mangrove-bench-") as name:
        base = Path(name)
        spec = SyntheticRates(topics=topics, seconds=seconds, seed=seed)
        generate(spec, base / "lake")
        runs = [_measured(base, count) for count in WORKERS]
    return {"topics": topics, "rows": spec.rows, "runs": runs}


def render(result: dict[str, Any], console: Console) -> None:
    """One table; the stages of each run are in the JSON answer."""
    columns = ("seconds", "task seconds", "no task ran", "not in tasks", "longest stage's balance")
    table = Table(
        f"profile, {result['rows']:,} rows of {result['topics']} topics",
        name_column("workers"),
        *map(number_column, columns),
    )
    for one in result["runs"]:
        longest = max(one["stages"], key=lambda stage: stage["task_s"])
        table.add(
            str(one["workers"]),
            f"{one['seconds']:.1f}",
            f"{one['task_s']:.1f}",
            f"{one['driver_share']:.1%}",
            f"{one['idle_share']:.1%}",
            f"{longest['balance']:.2f}",
        )
    table.show(console)


def missed(result: dict[str, Any]) -> list[str]:
    """Bar: at most so much of the time without any task."""
    return [
        f"{one['workers']} workers: no task ran in {one['driver_share']:.1%} of the time; "
        f"at most {SERIAL_BAR:.0%}"
        for one in result["runs"]
        if one["driver_share"] > SERIAL_BAR
    ]


def figures(events: list[dict[str, Any]], begin_s: float, end_s: float, workers: int) -> dict[str, Any]:
    """What the tasks between two moments tell."""
    tasks = [
        (event["Stage ID"], event["Task Info"]["Launch Time"] / 1e3, event["Task Info"]["Finish Time"] / 1e3)
        for event in events
        if event["Event"] == "SparkListenerTaskEnd"
    ]
    tasks = [task for task in tasks if begin_s <= task[1] <= end_s]
    covered, until = 0.0, begin_s
    for _, launch, finish in sorted(tasks, key=lambda task: task[1]):
        covered += max(0.0, finish - max(launch, until))
        until = max(until, finish)
    stages = []
    for stage in sorted({task[0] for task in tasks}):
        times = [finish - launch for number, launch, finish in tasks if number == stage]
        longest = max(max(times), 1e-3)
        ideal = max(sum(times) / workers, 1e-3)
        stages.append(
            {
                "stage": stage,
                "tasks": len(times),
                "task_s": sum(times),
                "longest_s": longest,
                "balance": min(1.0, ideal / longest) if len(times) >= workers else ideal / longest,
            }
        )
    wall, busy = end_s - begin_s, sum(stage["task_s"] for stage in stages)
    return {
        "workers": workers,
        "seconds": wall,
        "task_s": busy,
        "driver_share": 1.0 - covered / wall,
        "idle_share": 1.0 - busy / (workers * wall),
        "stages": stages,
    }


def _measured(base: Path, workers: int) -> dict[str, Any]:
    from mangrove.pipelines.jobs.profile import ProfileSettings, profile
    from mangrove.pipelines.rates.peaks import parse_peak
    from mangrove.pipelines.spark_session import session

    directory = base / f"workers{workers}"
    (directory / "events").mkdir(parents=True)
    settings = ProfileSettings(peak=parse_peak("all"))
    conf = (
        "spark.eventLog.enabled=true",
        f"spark.eventLog.dir={(directory / 'events').as_uri()}",
        "spark.eventLog.compress=false",
        "spark.eventLog.rolling.enabled=false",
        "spark.executor.memory=1g",
    )
    with _cluster(directory, workers) as url, session(url, conf=conf) as spark:
        profile(spark, str(base / "lake"), settings)
        begin_s = time.time()
        profile(spark, str(base / "lake"), settings)
        end_s = time.time()
    lines = [
        line
        for path in (directory / "events").rglob("*")
        if path.is_file()
        for line in path.read_text().splitlines()
        if line.startswith("{")
    ]
    return figures([json.loads(line) for line in lines], begin_s, end_s, workers)


@contextlib.contextmanager
def _cluster(directory: Path, workers: int) -> Iterator[str]:
    import pyspark

    home = Path(pyspark.__file__).parent
    spark_class = str(home / "bin" / "spark-class")
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
        "PYSPARK_PYTHON": sys.executable,
        "OPENBLAS_NUM_THREADS": "1",
    }
    with PortReservation() as ports, contextlib.ExitStack() as stack:

        def start(log: Path, *command: str) -> subprocess.Popen[bytes]:
            output = stack.enter_context(log.open("wb"))
            process = subprocess.Popen([spark_class, *command], stdout=output, stderr=output, env=environment)
            stack.callback(process.wait)
            stack.callback(process.terminate)
            return process

        port = ports.take("127.0.0.1")
        url, log = f"spark://127.0.0.1:{port}", directory / "master.log"
        where = ("--host", "127.0.0.1", "--webui-port", "0")
        master = start(log, "org.apache.spark.deploy.master.Master", *where, "--port", str(port))
        _wait_for("I have been elected leader", log, master, 1)
        for number in range(workers):
            size = ("--cores", "1", "--memory", "1g", "--work-dir", str(directory / f"work{number}"), url)
            start(directory / f"worker{number}.log", "org.apache.spark.deploy.worker.Worker", *where, *size)
        _wait_for("Registering worker", log, master, workers)
        yield url


def _wait_for(text: str, log: Path, process: subprocess.Popen[bytes], times: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while log.read_text(errors="replace").count(text) < times:
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"{text!r} did not appear: {log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.1)
