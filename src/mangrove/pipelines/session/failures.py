"""What can go wrong inside Spark, told apart: the cluster failed, or the work did."""

from __future__ import annotations

import re

from mangrove.errors import MangroveError

# Of the cluster, not of the input: another try on a sound cluster may well succeed.
CLUSTER_SIGNS = re.compile(
    r"SparkContext was shut ?down|SparkContext has been shutdown|stopped SparkContext|ExecutorLostFailure"
    r"|executor.{0,40} (?:lost|exited)|All masters are unresponsive|Master removed our application"
    r"|FetchFailed|MetadataFetchFailed|Connection (?:refused|reset)|StatusCode\.UNAVAILABLE|RETRIES_EXCEEDED"
    r"|failed to connect to all addresses|Socket closed|INVALID_HANDLE|SESSION_(?:CLOSED|NOT_FOUND|CHANGED)"
    r"|OPERATION_(?:NOT_FOUND|ABANDONED)|Answer from Java side is empty|Error while sending or receiving"
    r"|An error occurred while trying to connect to the Java server|No space left on device|OutOfMemoryError",
    re.IGNORECASE,
)


# A call into Java that failed: the class of its exception, and what that says, are in the second line.
JAVA = re.compile(r"\AAn error occurred while calling [^\n]*\n: [\w.$]+: +(\S[^\n]*)")


class SparkFailedError(MangroveError):
    """A job failed inside Spark; nothing was written."""


class ClusterLostError(SparkFailedError):
    """The cluster failed, not the job: a new try may succeed."""


class TimeLimitError(MangroveError):
    """What was asked for took longer than allowed and was cancelled."""

    def __init__(self, what: str, limit_s: float) -> None:
        super().__init__(
            f"{what}: cancelled after the time limit of {limit_s:g} s",
            hint="nothing was written; allow more time, or give Spark more machines",
        )
        self.limit_s = limit_s


def reason(error: BaseException) -> str:
    """The first line of what happened; of a failed call, to Java or to a Connect server, its details."""
    return first_words(_told(error)) or type(error).__name__


def first_words(text: str) -> str:
    """The line of an error's text that says what happened."""
    details = JAVA.search(text) or re.search(r'details = "(.+)"', text)
    if details is not None:
        return details[1][:300]
    return (text.strip().splitlines() or [""])[0][:300]


def _told(error: BaseException) -> str:
    """What an error says; one of Java's asks its process, which may be gone."""
    from py4j.protocol import Py4JError

    try:
        return str(error)
    except (OSError, Py4JError):
        return str(getattr(error, "errmsg", "") or "Spark's process has ended")


def failure(error: BaseException, where: str, log: str = "") -> SparkFailedError:
    """An exception of Spark's as one of ours."""
    also = f"; Spark's log: {log}" if log else ""
    if isinstance(error, ConnectionError) or CLUSTER_SIGNS.search(_told(error)):
        return ClusterLostError(
            f"Spark at {where} failed while the job was running: {reason(error)}",
            hint="nothing was written; see that the cluster's machines run and have memory and disk "
            f"(--memory, --conf spark.executor.memory=…), then run the same command again{also}",
        )
    return SparkFailedError(f"Spark failed: {reason(error)}", hint=f"nothing was written{also}")
