"""A clock that stands still while a machine keeps those from the processor who carry messages.

Tests of attacks run on machines that do other things as well. What a gap is worth must not depend on that: a
gateway that is at work, or waits for something, makes a gap; one that could run and is not let by others does
not. Linux tells of every thread how long it ran and how long it waited for a processor
(/proc/PID/task/TID/schedstat). They are read every few milliseconds, in a thread of its own.

Of each such moment is excused what the thread waited that waited longest. Time in which one of the watched
processes ran counts always: an attack that makes a gateway busy cannot hide behind others that wait.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import NamedTuple

SAMPLE_S = 0.01
MAX_SAMPLES = 1 << 16


class Usage(NamedTuple):
    """Of one thread since it began."""

    ran_s: float
    waited_s: float


class ExcusedTime:
    """How much of the time was nobody's fault; grows sample by sample."""

    def __init__(self, now_s: float) -> None:
        self._times = [now_s]
        self._excused = [0.0]
        self._before: dict[int, Usage] = {}

    def sample(self, now_s: float, threads: dict[int, Usage]) -> None:
        """What the threads have used up to now."""
        passed_s = now_s - self._times[-1]
        ran_s = waited_s = 0.0
        for thread, usage in threads.items():
            before = self._before.get(thread)
            if before is not None:
                ran_s = max(ran_s, usage.ran_s - before.ran_s)
                waited_s = max(waited_s, usage.waited_s - before.waited_s)
        self._before = threads
        self._times.append(now_s)
        self._excused.append(self._excused[-1] + max(0.0, min(waited_s, passed_s - ran_s)))
        if len(self._times) > MAX_SAMPLES:
            del self._times[: MAX_SAMPLES // 2], self._excused[: MAX_SAMPLES // 2]

    def until(self, when_s: float) -> float:
        """How much was excused up to a time, in proportion within a sample."""
        place = bisect_right(self._times, when_s)
        if place == 0:
            return self._excused[0]
        if place == len(self._times):
            return self._excused[-1]
        start_s, end_s = self._times[place - 1], self._times[place]
        share = (when_s - start_s) / (end_s - start_s)
        return self._excused[place - 1] + share * (self._excused[place] - self._excused[place - 1])

    def between(self, start_s: float, end_s: float) -> float:
        """The time from one moment to another, less what was excused."""
        return end_s - start_s - (self.until(end_s) - self.until(start_s))


class ProcessorWaits:
    """Watches processes, from `start` to `stop`; the own one as well, whose work makes no gap."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids = tuple(pids)
        self._lock = threading.Lock()
        self._time = ExcusedTime(monotonic())
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="processor waits", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Watch no longer."""
        self._stopped.set()
        self._thread.join()

    def between(self, start_s: float, end_s: float) -> float:
        """The time from one moment to another, by `monotonic`, less what was excused."""
        with self._lock:
            return self._time.between(start_s, end_s)

    def settle(self) -> None:
        """Sample once more: what is asked next is about time that has been sampled."""
        with self._lock:
            own = {thread: Usage(0.0, used.waited_s) for thread, used in usages((os.getpid(),)).items()}
            self._time.sample(monotonic(), own | usages(self._pids))

    def _watch(self) -> None:
        while not self._stopped.wait(SAMPLE_S):
            self.settle()


def usages(pids: Sequence[int]) -> dict[int, Usage]:
    """What each thread of some processes has used; of those that are gone, nothing."""
    found: dict[int, Usage] = {}
    for pid in pids:
        try:
            tasks = list(Path(f"/proc/{pid}/task").iterdir())
        except OSError:
            continue
        for task in tasks:
            try:
                ran_ns, waited_ns, _ = (task / "schedstat").read_text().split()
            except (OSError, ValueError):
                continue
            found[int(task.name)] = Usage(int(ran_ns) / 1e9, int(waited_ns) / 1e9)
    return found
