"""Who plays tasks: this process, several processes of this machine, or (in `pipelines`) Spark's executors."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Protocol

from mangrove.evaluation.trials.experiment import Played, Task
from mangrove.simulation.worker_processes import play_in_processes

Play = Callable[[Task], Played]

MAX_CHUNK = 50
"""Tasks that a process plays before it tells what came of them."""
CHUNKS_EACH = 8
"""So many chunks for each process, so that one long chunk does not hold up the end."""


class Runner(Protocol):
    """Plays tasks anywhere; `take` hears of each as it is done, in any order, in the thread that calls."""

    def run(self, play: Play, groups: Sequence[Sequence[Task]], take: Callable[[Played], None]) -> None:
        """Play all tasks of all groups, each group in a row where that is possible."""


class LocalRunner:
    """Plays in this process, or in several that end with it."""

    def __init__(self, workers: int = 1) -> None:
        self.workers = workers

    def run(self, play: Play, groups: Sequence[Sequence[Task]], take: Callable[[Played], None]) -> None:
        tasks = [task for group in groups for task in group]
        workers = min(self.workers, len(tasks))
        if workers <= 1:
            for task in tasks:
                take(play(task))
            return
        # Matrices are small; threads of the algebra library would only fight for the cores.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        size = max(1, min(MAX_CHUNK, len(tasks) // (workers * CHUNKS_EACH)))
        chunks = [tasks[first : first + size] for first in range(0, len(tasks), size)]
        play_in_processes(play, chunks, take, workers)
