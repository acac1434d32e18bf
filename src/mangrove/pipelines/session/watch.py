"""An eye on the cluster while jobs run: without one, a job whose machines are gone waits for ever."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_S = 1.0


class ClusterWatch:
    """Cancels all jobs when they have had no executor for `patience_s`.

    Idle clusters may well have none (dynamic allocation), so only time with a job under way counts.
    """

    def __init__(self, spark: SparkSession, patience_s: float) -> None:
        self.lost = False
        self._context = spark.sparkContext
        self.patience_s = patience_s
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="cluster-watch", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def end(self) -> None:
        """Watch no more."""
        self._done.set()
        self._thread.join(5.0)

    def _watch(self) -> None:
        from py4j.protocol import Py4JError

        last_well = time.monotonic()
        # The session's end closes the connection under our feet.
        with suppress(Py4JError, OSError, AttributeError, TypeError):
            while not self._done.wait(POLL_S):
                now = time.monotonic()
                if self._well():
                    last_well = now
                elif now - last_well >= self.patience_s:
                    self.lost = True
                    self._context.cancelAllJobs()

    def _well(self) -> bool:
        context = self._context._jsc.sc()
        if not len(context.statusTracker().getActiveJobIds()):
            return True
        # The driver is one of them.
        return int(context.getExecutorMemoryStatus().size()) > 1
