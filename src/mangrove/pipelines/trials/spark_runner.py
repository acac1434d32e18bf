"""Plays tasks on Spark's executors: any pure function of a small value, spread over all cores.

Tasks go out in rounds. A round is a DataFrame with one partition for each chunk of tasks, and a chunk is as
many tasks as take about a second; so partitions are many times the cores, and a long task holds up nobody
but itself. Several rounds are under way at a time, so that cores do not wait for the end of one. The answers
of a round come back together: that is how progress is seen, and how little is lost when the driver dies. An
executor that is lost is Spark's to replace: it plays its chunks again elsewhere.
"""

from __future__ import annotations

import pickle
import re
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from mangrove.errors import MangroveError
from mangrove.pipelines.session.failures import first_words

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")

CHUNK_S = 1.0
ROUND_S = 4.0
"""How long a chunk, and a round on all cores, should take."""
ROUNDS = 3
"""Under way at a time."""
MAX_CHUNK = 1_000
MAX_ROUND = 50_000
PATIENCE_S = 180.0
"""For so long executors may take to start. While they are at work, no answer means that they are busy."""
LOOK_AGAIN_S = 30.0
"""So often it is asked how many cores there are: executors come and go."""

Batches: TypeAlias = "Iterator[pa.RecordBatch]"
ANSWERS = "chunk bigint, seconds double, answers binary, missing string"


class SparkRunner:
    """Plays tasks through a Spark session of any kind: inside this process, on a cluster, or remote."""

    def __init__(self, spark: SparkSession, package: Path | None = None) -> None:
        """`package` is a zip file with Python code that executors need and may not have."""
        self._spark = spark
        self._task_s: float | None = None
        """How long a task takes, as far as is known."""
        self._cores = 0
        self._looked_at = 0.0
        self._asked: Future[int] | None = None
        """How many cores there are, while nobody has answered: work that was there before comes first."""
        if package is not None:
            spark.addArtifacts(str(package), pyfile=True)

    def run(self, play: Callable[[T], R], groups: Sequence[Sequence[T]], take: Callable[[R], None]) -> None:
        """Play all tasks of all groups, each group in a row; `take` gets what came of them, in any order."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        tasks = [task for group in groups for task in group]
        payload = pickle.dumps(play)
        # One more than rounds: a question that waits keeps none of them from the executors.
        threads = ThreadPoolExecutor(ROUNDS + 1, "spark round")
        running: set[Future[list[R]]] = set()
        first = 0
        try:
            while first < len(tasks) or running:
                # How long a task takes is known after the first round.
                while first < len(tasks) and len(running) < (1 if self._task_s is None else ROUNDS):
                    chunks = self._next_round(tasks, first, threads, busy=bool(running))
                    first += sum(map(len, chunks))
                    running.add(threads.submit(self._play, payload, chunks))
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for each in done:
                    for answer in each.result():
                        take(answer)
        except (PySparkException, Py4JError) as error:
            raise explained(str(error)) from error
        finally:
            if running or (self._asked is not None and not self._asked.done()):
                self._spark.interruptAll()
            self._asked = None
            threads.shutdown(wait=False, cancel_futures=True)

    def _next_round(
        self, tasks: Sequence[T], first: int, threads: ThreadPoolExecutor, *, busy: bool
    ) -> list[Sequence[T]]:
        """The chunks of the next round; `busy`: others are under way."""
        cores = self._count_cores(threads, busy=busy)
        left = len(tasks) - first
        if self._task_s is None:
            size, count = 1, cores
        else:
            task_s = max(self._task_s, 1e-6)
            size = max(1, min(MAX_CHUNK, round(CHUNK_S / task_s)))
            count = cores * max(1, round(ROUND_S / max(CHUNK_S, task_s)))
            # At the end chunks become small, so that all cores end at about the same time.
            size = max(1, min(size, left // count, MAX_ROUND // count))
        return [tasks[at : at + size] for at in range(first, min(len(tasks), first + size * count), size)]

    def _count_cores(self, threads: ThreadPoolExecutor, *, busy: bool) -> int:
        """How many tasks the cluster can do at a time: so many partitions it gives to a plain range.

        While it is busy it answers when it can, and until then the last number counts.
        """
        if self._asked is None:
            if self._cores and time.monotonic() - self._looked_at < LOOK_AGAIN_S:
                return self._cores
            self._asked = threads.submit(self._ask_cores)
        if busy and self._cores and not self._asked.done():
            return self._cores
        try:
            self._cores = self._asked.result(PATIENCE_S)
        except TimeoutError:
            raise MangroveError(
                f"no executor of the cluster has answered for {PATIENCE_S:g} s",
                hint="has the master workers with free cores and memory?",
            ) from None
        self._asked = None
        self._looked_at = time.monotonic()
        return self._cores

    def _ask_cores(self) -> int:
        from pyspark.sql.functions import spark_partition_id

        places = self._spark.range(10_000).select(spark_partition_id().alias("place"))
        return max(1, len(places.distinct().collect()))

    def _play(self, payload: bytes, chunks: Sequence[Sequence[T]]) -> list[R]:
        """One round, in a thread of its own."""
        frame = self._spark.range(0, len(chunks), 1, len(chunks))
        table = frame.mapInArrow(on_executor(payload, pickle.dumps(chunks)), ANSWERS).toArrow()
        missing = sorted({name for name in table["missing"].to_pylist() if name})
        if missing:
            raise _lacking(", ".join(missing))
        seconds = sum(table["seconds"].to_pylist()) / sum(map(len, chunks))
        self._task_s = seconds if self._task_s is None else (self._task_s + seconds) / 2
        return [answer for part in table["answers"].to_pylist() for answer in pickle.loads(part)]


def explained(text: str) -> MangroveError:
    """What Spark says, in words: a library that is missing, or the last error of it all."""
    library = re.search(r"No module named '([\w.]+)'|(\w+) >= [\d.]+ must be installed", text)
    if library:
        return _lacking(library[1] or library[2])
    errors = re.findall(r"^(?:[\w.]+)?(?:Error|Exception)\b.*", text, re.MULTILINE)
    reason = errors[-1][:300] if errors else first_words(text) or "it does not say why"
    return MangroveError(
        f"Spark failed: {reason}",
        hint="with --results, what was finished is kept: run the same command again",
    )


def _lacking(libraries: str) -> MangroveError:
    return MangroveError(
        f"the executors' Python lacks {libraries}",
        hint="install the libraries of `mangrove-messaging` there, or set PYSPARK_PYTHON to a Python that"
        " has them",
    )


def on_executor(payload: bytes, chunks: bytes) -> Callable[[Batches], Batches]:
    """What an executor does: a function that is sent as it is, so that it can tell what is missing there."""

    def play_chunks(batches: Batches) -> Batches:
        import pickle
        import time

        import pyarrow

        for batch in batches:
            for number in batch.column(0).to_pylist():
                row = {"chunk": [number], "seconds": [0.0], "answers": [b""], "missing": [""]}
                try:
                    play, all_chunks = pickle.loads(payload), pickle.loads(chunks)
                except ModuleNotFoundError as error:
                    row["missing"] = [error.name or str(error)]
                else:
                    began = time.perf_counter()
                    row["answers"] = [pickle.dumps([play(task) for task in all_chunks[number]])]
                    row["seconds"] = [time.perf_counter() - began]
                yield pyarrow.RecordBatch.from_pydict(row)

    return play_chunks
