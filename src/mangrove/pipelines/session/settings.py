"""What a user chooses of a Spark session, checked before anything is started."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from mangrove.errors import InputError

LEVELS = ("ERROR", "WARN", "INFO", "DEBUG")
# Settings with an option of their own: two places for one thing would contradict each other.
OWN_OPTION = {
    "spark.master": "--master",
    "spark.remote": "--remote",
    "spark.driver.memory": "--memory",
    "spark.log.level": "--spark-log",
}


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """Where Spark runs and within which bounds. Neither `master` nor `remote`: inside this process."""

    master: str | None = None
    remote: str | None = None
    memory: str = "2g"
    """Of the driver that this process starts."""
    conf: tuple[tuple[str, str], ...] = ()
    log_level: str | None = None
    """None: errors only, into a file that is kept and named if the run fails."""
    time_limit_s: float | None = None
    patience_s: float = 60.0
    """How long a cluster may be gone, with a job under way, before the job is given up."""

    @classmethod
    def checked(
        cls,
        master: str | None = None,
        remote: str | None = None,
        memory: str = "2g",
        conf: Sequence[str] = (),
        spark_log: str | None = None,
        time_limit_s: float | None = None,
    ) -> SparkSettings:
        """As given on the command line; what does not go together is refused."""
        if master and remote:
            raise InputError("--master and --remote exclude each other", hint="give one of them")
        if not re.fullmatch(r"[1-9]\d*[kmgt]b?", memory, re.IGNORECASE):
            raise InputError(f"--memory: {memory!r}", hint="a number and a unit, e.g. 512m or 4g")
        if spark_log is not None and spark_log.upper() not in LEVELS:
            raise InputError(f"--spark-log: {spark_log!r}", hint=f"one of: {', '.join(LEVELS)}")
        if spark_log is not None and remote:
            raise InputError(
                "--spark-log goes with Spark in this process or with --master",
                hint="with --remote the log is the server's; set its level where the server is started",
            )
        if time_limit_s is not None and not 0 < time_limit_s < float("inf"):
            raise InputError(f"--time-limit: {time_limit_s:g}", hint="seconds, above 0")
        level = None if spark_log is None else spark_log.upper()
        return cls(master, remote, memory, tuple(_setting(text) for text in conf), level, time_limit_s)


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not re.fullmatch(r"spark(\.[\w-]+)+", key):
        raise InputError(
            f"--conf: {text!r}", hint="a Spark setting as key=value, e.g. spark.eventLog.enabled=true"
        )
    if key in OWN_OPTION:
        raise InputError(f"--conf: {key} has an option of its own", hint=f"give {OWN_OPTION[key]}")
    return key, value
