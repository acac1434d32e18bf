"""One Spark session for all steps of a run: started when a step first needs it, and anew after a failure."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from mangrove.pipelines.session.settings import SparkSettings
from mangrove.pipelines.spark_session import RunningSession, started


class SessionKeeper:
    """Owns the session; `drop` ends it."""

    def __init__(self, settings: SparkSettings, progress: Callable[[str], None]) -> None:
        self.progress = progress
        self.sessions = 0
        """How many were started."""
        self._settings = settings
        self._running: RunningSession | None = None
        self._stack = ExitStack()

    def running(self) -> RunningSession:
        """The session, started if there is none."""
        if self._running is None:
            self._running = self._stack.enter_context(started(self._settings))
            self.sessions += 1
        return self._running

    def cancel_jobs(self) -> None:
        """End what a step left running."""
        if self._running is not None:
            self._running.cancel_jobs()

    def drop(self) -> None:
        """End the session; the next step that needs one starts another."""
        self._running = None
        self._stack.close()
