"""The Java process of a Spark session in this process: started quietly, and surely ended.

PySpark leaves its process running until Python ends and lets it write on our screen. Here it belongs to the
session: what it and its Python workers write goes to a file, and it is gone when the session is.
"""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from mangrove.errors import MangroveError
from mangrove.pipelines.session.failures import reason
from mangrove.pipelines.session.settings import SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_JAVA = 17
END_S = 15.0
# Python workers keep what they have freed: giving arrays of megabytes back to the kernel, and touching new
# ones, was a quarter of their time.
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(256 << 20), "MALLOC_TRIM_THRESHOLD_": str(512 << 20)}
LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")


class SparkDriver:
    """A session and the process that it owns."""

    def __init__(self, spark: SparkSession, gateway: Any, log: Path | None) -> None:
        self.spark = spark
        self.log = log
        self._gateway = gateway

    def end(self, *, orderly: bool) -> None:
        """Stop Spark, then its process. Not `orderly`: Spark is not asked, since it might not answer."""
        from py4j.protocol import Py4JError

        process: subprocess.Popen[bytes] = self._gateway.proc
        try:
            if not orderly:
                process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(END_S)
            with suppress(Py4JError, OSError):
                self.spark.stop()
        finally:
            _end(self._gateway)


def start_driver(master: str, settings: SparkSettings, conf: Mapping[str, str]) -> SparkDriver:
    """Start the process and a session in it."""
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    require_java()
    # Workers on this machine run the same Python, with the same libraries.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for name, value in {"OPENBLAS_NUM_THREADS": "1", **KEEP_MEMORY}.items():
        os.environ.setdefault(name, value)
    # `mangrove` may be installed next to a proxy or a name that does not resolve.
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    level = settings.log_level or "ERROR"
    chosen = SparkConf().setMaster(master).setAppName("mangrove").set("spark.driver.memory", settings.memory)
    for name, value in {**conf, "spark.log.level": level}.items():
        chosen.set(name, value)
    log = None
    if settings.log_level is None:
        log = Path(tempfile.mkdtemp(prefix="mangrove-spark-")) / "spark.log"
    gateway = None
    try:
        with _own_signals():
            with _submit_options(level), _screen(log) as screen:
                # In a session of its own: a signal to our group does not kill it before we have cleaned up.
                options = {"stdout": screen, "stderr": screen, "start_new_session": True}
                gateway = launch_gateway(chosen, options)  # type: ignore[no-untyped-call]
            context = SparkContext(gateway=gateway, conf=chosen)
            # Its little server prints a trace when the process is gone.
            context._accumulatorServer.handle_error = lambda *_: None  # type: ignore[method-assign]
            spark = SparkSession(context)
    except BaseException as error:
        why = reason(error)  # Java tells it as long as it runs
        if gateway is not None:
            _end(gateway)
        if not isinstance(error, (PySparkException, Py4JError, OSError)):
            discard(log)
            raise
        raise MangroveError(
            f"Spark did not start with master {master}: {why}",
            hint="are the master's address and the settings right?" + (f" Spark's log: {log}" if log else ""),
        ) from error
    return SparkDriver(spark, gateway, log)


def discard(log: Path | None) -> None:
    """Remove the log of a run that went well."""
    if log is not None:
        shutil.rmtree(log.parent, ignore_errors=True)


@contextmanager
def _own_signals() -> Iterator[None]:
    """Spark replaces the handler of Ctrl-C by one that talks to Java in the middle of talking to it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class Interruption:
    """Remembers Ctrl-C and SIGTERM: libraries may swallow the exception, or turn it into one of theirs."""

    def __init__(self) -> None:
        self.happened = False

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Handlers stay what they are; that they were called is noted. Main thread only."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

        def note(number: int, frame: FrameType | None) -> None:
            self.happened = True
            handler = before[signal.Signals(number)]
            if callable(handler):
                handler(number, frame)

        for number, handler in before.items():
            if callable(handler):
                signal.signal(number, note)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """No notes of PySpark's and py4j's on the screen: our errors say it, with what to do."""
    root = logging.getLogger()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"pyspark\.")
        root.addFilter(_not_from_py4j)
        try:
            yield
        finally:
            root.removeFilter(_not_from_py4j)


def _not_from_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in Path(record.pathname).parts


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


@contextmanager
def _screen(log: Path | None) -> Iterator[Any]:
    """Where the process writes: a file, or our own stderr."""
    if log is None:
        yield sys.stderr.fileno() if sys.stderr.isatty() else None
        return
    with log.open("ab") as file:
        yield file


@contextmanager
def _submit_options(level: str) -> Iterator[None]:
    """Our log settings from the first line on, unless the user gives options of their own."""
    name = "PYSPARK_SUBMIT_ARGS"
    if os.environ.get(name):
        yield
        return
    java = f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()} -Dmangrove.spark.level={level}"
    os.environ[name] = f"--driver-java-options {shlex.quote(java)} pyspark-shell"
    try:
        yield
    finally:
        del os.environ[name]


def _end(gateway: Any) -> None:
    """End the process, and let PySpark start another one later."""
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    process: subprocess.Popen[bytes] = gateway.proc
    with suppress(Py4JError, OSError):
        gateway.shutdown()
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    with SparkContext._lock:
        SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
