"""Spark sessions: in this process, on a cluster's master, or through Spark Connect.

All three behave alike: adaptive execution, nothing of Spark's on the screen, an end in bounded time whether
the job is done, cancelled by Ctrl-C or SIGTERM, out of time, or without a cluster.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from mangrove.errors import InputError, MangroveError
from mangrove.pipelines.session.driver import (
    KEEP_MEMORY,
    Interruption,
    discard,
    quiet_libraries,
    require_java,
    start_driver,
)
from mangrove.pipelines.session.failures import ClusterLostError, failure, reason
from mangrove.pipelines.session.settings import SparkSettings
from mangrove.pipelines.session.time_limit import time_limit
from mangrove.pipelines.session.watch import ClusterWatch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["RunningSession", "SparkSettings", "opened", "require_java", "session", "started"]

MASTER_PORT = 7077
CONNECT_PORT = 15002
CONNECT_RETRY_S = 2.0
# Of the session, so a Connect server takes them too. The number of shuffle partitions is Spark's and adaptive
# execution joins small ones: it follows the data, not this machine.
SESSION_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.enabled": "true",
    "spark.sql.adaptive.skewJoin.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
# Java compiles a method thoroughly only after ten times as many calls as it would: a job of a minute or two
# spends more on compiling Spark than that brings (decision 0335).
COMPILE_LATE = " ".join(
    f"-XX:Tier4{name}={calls}"
    for name, calls in (
        ("InvocationThreshold", 50_000),
        ("MinInvocationThreshold", 6_000),
        ("CompileThreshold", 150_000),
        ("BackEdgeThreshold", 400_000),
    )
)
# Pieces of megabytes come and go: a collector that works all the time, as Java's own choice does, costs more.
COLLECT_AT_ONCE = "-XX:+UseParallelGC"
# Of the process that we start.
DRIVER_SETTINGS = {
    "spark.driver.extraJavaOptions": f"{COMPILE_LATE} {COLLECT_AT_ONCE}",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Workers are reused; one BLAS thread for each task, or tasks fight for the cores.
    "spark.executorEnv.OPENBLAS_NUM_THREADS": "1",
    "spark.executorEnv.OMP_NUM_THREADS": "1",
    **{f"spark.executorEnv.{name}": value for name, value in KEEP_MEMORY.items()},
}


@contextmanager
def session(
    master: str | None = None,
    remote: str | None = None,
    memory: str = "2g",
    *,
    conf: Sequence[str] = (),
    spark_log: str | None = None,
    time_limit_s: float | None = None,
) -> Iterator[SparkSession]:
    """A session that is stopped at the end. Neither `master` nor `remote`: Spark inside this process."""
    with opened(SparkSettings.checked(master, remote, memory, conf, spark_log, time_limit_s)) as spark:
        yield spark


@contextmanager
def opened(settings: SparkSettings) -> Iterator[SparkSession]:
    """A session by its settings, for one piece of work."""
    with started(settings) as running, running.told(), time_limit(settings.time_limit_s, "the run"):
        yield running.spark


class RunningSession:
    """A session that runs, for one piece of work after the other."""

    def __init__(self, spark: SparkSession, where: str, log: Path | None, watch: ClusterWatch | None) -> None:
        self.spark = spark
        self.interruption = Interruption()
        self.failed = False
        """Whether there was a failure that Spark's log may explain."""
        self._where = where
        self._log = log
        self._watch = watch
        self._patience_s = 0.0 if watch is None else watch.patience_s

    @contextmanager
    def told(self) -> Iterator[None]:
        """What fails inside Spark becomes an error with its first line, and with what to do."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            yield
        except (PySparkException, Py4JError, ConnectionError) as error:
            if self.interruption.happened:
                raise KeyboardInterrupt from None
            self.failed = True
            if self.lost:
                raise ClusterLostError(
                    f"the cluster at {self._where} has had no machine for the job for {self._patience_s:g} s",
                    hint="nothing was written; start its workers (the master's web page lists them), or ask "
                    "for less with --conf spark.executor.memory=… and --conf spark.cores.max=…; run again",
                ) from error
            raise failure(error, self._where, str(self._log or "")) from error

    @property
    def lost(self) -> bool:
        """Whether the cluster went away under a job."""
        return self._watch is not None and self._watch.lost

    def cancel_jobs(self) -> None:
        """Break off what runs; a cluster that no longer answers has nothing to break off."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        with suppress(PySparkException, Py4JError, OSError):
            if type(self.spark).__module__.startswith("pyspark.sql.connect"):
                self.spark.interruptAll()
            else:
                self.spark.sparkContext.cancelAllJobs()


@contextmanager
def started(settings: SparkSettings) -> Iterator[RunningSession]:
    """A session that is stopped at the end, with whatever it still does."""
    kind = _connected if settings.remote else _on_driver
    with quiet_libraries(), kind(settings) as running, running.interruption.noted():
        yield running


@contextmanager
def _on_driver(settings: SparkSettings) -> Iterator[RunningSession]:
    master = settings.master or "local[*]"
    if master.startswith("spark://"):
        _require_listener("--master", master, MASTER_PORT, "Spark master")
    driver = start_driver(master, settings, {**SESSION_SETTINGS, **DRIVER_SETTINGS, **dict(settings.conf)})
    watch = None if master.startswith("local") else ClusterWatch(driver.spark, settings.patience_s)
    running = RunningSession(driver.spark, master, driver.log, watch)
    try:
        if watch is not None:
            watch.start()
        yield running
    finally:
        if watch is not None:
            watch.end()
        running.cancel_jobs()
        driver.end(orderly=not running.lost)
        if not running.failed:
            discard(driver.log)


@contextmanager
def _connected(settings: SparkSettings) -> Iterator[RunningSession]:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.client.retries import DefaultPolicy

    remote = str(settings.remote)
    _require_listener("--remote", remote, CONNECT_PORT, "Spark Connect server")
    try:
        spark: SparkSession = SparkSession.builder.remote(remote).appName("mangrove").getOrCreate()
        # Spark's own choice is to try for more than ten minutes.
        tries = max(1, round(settings.patience_s / CONNECT_RETRY_S))
        wait_ms = round(1000 * CONNECT_RETRY_S)
        spark.client.set_retry_policies([DefaultPolicy(tries, 1.0, wait_ms, wait_ms, jitter=0)])
        _ = spark.version
    except (PySparkException, OSError) as error:
        raise MangroveError(
            f"no Spark Connect server answers at {remote}: {reason(error)}",
            hint="start one as docs/how-to/run-pipelines.md shows, or leave --remote out",
        ) from error
    running = RunningSession(spark, remote, None, None)
    try:
        for name, value in {**SESSION_SETTINGS, **dict(settings.conf)}.items():
            _set_on_server(spark, name, value)
        yield running
    finally:
        # Farewells are said once: a server that is gone does not hear them.
        spark.client.set_retry_policies([DefaultPolicy(max_retries=0)])
        running.cancel_jobs()
        spark.stop()


def _set_on_server(spark: SparkSession, name: str, value: str) -> None:
    from pyspark.errors import AnalysisException

    try:
        spark.conf.set(name, value)
    except AnalysisException as error:
        raise InputError(
            f"--conf {name}: {reason(error)}",
            hint="with --remote, settings of the whole application are given where the server is started",
        ) from None


def _require_listener(option: str, url: str, port: int, what: str) -> None:
    """Spark tries for a minute or ten before it gives up; a closed port can be told at once."""
    scheme = "spark" if option == "--master" else "sc"
    example = f"{scheme}://host:{port}"
    refused: OSError | None = None
    # A master may have others that stand by: spark://a:7077,b:7077.
    for place in url.removeprefix(f"{scheme}://").split(","):
        parts = urlsplit(f"//{place}")
        try:
            address = (parts.hostname, parts.port or port)
        except ValueError:
            address = (None, port)
        if not url.startswith(f"{scheme}://") or not address[0]:
            raise InputError(f"{option}: {url!r}", hint=example)
        try:
            socket.create_connection(address, timeout=10).close()
        except OSError as error:
            refused = error
        else:
            return
    raise MangroveError(
        f"no {what} answers at {url}: {refused}",
        hint=f"start one as docs/how-to/run-pipelines.md shows, or leave {option} out",
    )
