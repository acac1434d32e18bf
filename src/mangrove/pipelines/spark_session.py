"""Spark sessions: in this process, on a cluster's master, or through Spark Connect."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from mangrove.errors import InputError, MangroveError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_JAVA = 17
CONNECT_PORT = 15002
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Workers are reused; one BLAS thread for each task, or tasks fight for the cores.
    "spark.executorEnv.OPENBLAS_NUM_THREADS": "1",
    "spark.executorEnv.OMP_NUM_THREADS": "1",
}


@contextmanager
def session(
    master: str | None = None, remote: str | None = None, memory: str = "2g"
) -> Iterator[SparkSession]:
    """A session that is stopped at the end. Neither `master` nor `remote`: Spark inside this process.

    What fails inside Spark becomes an error with its first line; the rest is in Spark's log.
    """
    if master and remote:
        raise InputError("--master and --remote exclude each other", hint="give one of them")
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    spark = _connected(remote) if remote else _started(master or "local[*]", memory)
    try:
        yield spark
    except (PySparkException, Py4JError) as error:
        raise MangroveError(f"Spark failed: {_reason(error)}", hint="nothing was written") from error
    finally:
        spark.stop()


def _connected(remote: str) -> SparkSession:
    from pyspark.sql import SparkSession

    _require_listener(remote)
    try:
        spark: SparkSession = SparkSession.builder.remote(remote).appName("mangrove").getOrCreate()
        _ = spark.version
    except Exception as error:
        raise MangroveError(
            f"no Spark Connect server answers at {remote}: {_reason(error)}",
            hint="start one as docs/how-to/run-pipelines.md shows, or leave --remote out",
        ) from error
    for name in ("spark.sql.session.timeZone", "spark.sql.shuffle.partitions"):
        spark.conf.set(name, SETTINGS[name])
    return spark


def _require_listener(remote: str) -> None:
    """Spark's client tries for ten minutes before it gives up; a closed port can be told at once."""
    parts = urlsplit(remote)
    if parts.scheme != "sc" or not parts.hostname:
        raise InputError(f"--remote: {remote!r}", hint="sc://host:15002")
    try:
        socket.create_connection((parts.hostname, parts.port or CONNECT_PORT), timeout=10).close()
    except OSError as error:
        raise MangroveError(
            f"no Spark Connect server answers at {remote}: {error}",
            hint="start one as docs/how-to/run-pipelines.md shows, or leave --remote out",
        ) from None


def _started(master: str, memory: str) -> SparkSession:
    from pyspark.sql import SparkSession

    require_java()
    _quiet_java()
    # Workers on this machine run the same Python, with the same libraries.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # `mangrove` may be installed next to a proxy or a name that does not resolve.
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(master).appName("mangrove").config("spark.driver.memory", memory)
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    try:
        spark: SparkSession = builder.getOrCreate()
    except Exception as error:
        raise MangroveError(
            f"Spark did not start with master {master}: {_reason(error)}",
            hint="is the master's address right, and does it answer?",
        ) from error
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def require_java() -> None:
    """Say what to install when there is no Java that Spark can run on."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    version = 0
    if java is not None:
        try:
            text = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
            version = int(text.split('"')[1].split(".")[0])
        except (OSError, IndexError, ValueError):
            version = 0
    if version < OLDEST_JAVA:
        found = f"Java {version} was found" if version else "none was found"
        raise MangroveError(
            f"the pipelines need Java {OLDEST_JAVA} or newer; {found}",
            hint="on Debian or Ubuntu: sudo apt-get install openjdk-17-jre-headless",
        )


def _quiet_java() -> None:
    """Spark's start-up notes would mix with our own on stderr."""
    options = os.environ.get("PYSPARK_SUBMIT_ARGS", "")
    if not options:
        settings = Path(__file__).with_name("log4j2.properties")
        os.environ["PYSPARK_SUBMIT_ARGS"] = (
            f'--driver-java-options "-Dlog4j2.configurationFile={settings.as_uri()}" pyspark-shell'
        )


def _reason(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
