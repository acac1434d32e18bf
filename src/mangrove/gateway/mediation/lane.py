"""The way of one contract's messages through its transform: a bounded queue, and a process at its end.

Everything in it is in order. Messages are given to the process as they come, and its answers handed on as
they come; a task looks after the process: starts it when there is something to do, ends it when there has
been nothing for long, and kills it when it makes no progress. The message that it hangs in, or died of, is a
dead letter; all others that it was given are given again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from mangrove.gateway.mediation.exchange import Failure, Given, Outcome, Result, WorkerSettings
from mangrove.gateway.mediation.job import Job, Named
from mangrove.gateway.mediation.worker_process import WorkerFailedError, WorkerProcess

log = logging.getLogger(__name__)

MAX_WAITING = 100_000
MAX_GIVEN = 256
"""Messages that a process may have and not have answered."""
MAX_GIVEN_BYTES = 1 << 20
IDLE_S = 60.0
CHECKS = 4
"""A process is asked for progress so often in the time that a message may take: one that stood still as often
is killed. A machine that was suspended misses one check, not all."""
FIRST_PAUSE_S = 0.05
MAX_PAUSE_S = 5.0
UNKNOWN = "this gateway knows no transform of this name"


class Sink(Protocol):
    """Who takes what comes out of a lane."""

    def passed(self, job: Job, payload: bytes) -> None:
        """A message goes on, with this payload."""

    def left_out(self, job: Job) -> None:
        """A transform does not let a message pass."""

    def failed(self, job: Job, failure: Failure, detail: str) -> None:
        """A message could not be transformed."""

    def dropped(self, job: Job) -> None:
        """Too much waits."""

    def flush(self) -> None:
        """That was all for now."""


class Lane:
    """One contract's messages at this gateway, in one direction."""

    def __init__(
        self,
        match: str,
        sink: Sink,
        *,
        max_message_bytes: int,
        queue_bytes: int,
        look_after: Callable[[Lane], None],
        started: Counter[str],
    ) -> None:
        """`look_after` has `run` run as a task, once; starts are counted by transform in `started`."""
        self.match = match
        self._sink = sink
        self._max_message_bytes = max_message_bytes
        self._queue_bytes = queue_bytes
        self._look_after = look_after
        self._started = started
        self._waiting: deque[Job] = deque()
        self._waiting_bytes = 0
        self._given: deque[Job] = deque()
        self._given_bytes = 0
        self._answered = 0
        """Messages that the present process has answered."""
        self._worker: WorkerProcess | None = None
        """The process, while it is ready."""
        self._use: Named | None = None
        """Its transform."""
        self._looked_after = False
        self._news = asyncio.Event()
        self._gone = asyncio.Event()
        """Set when the process is lost."""
        self._pause_s = FIRST_PAUSE_S

    def __len__(self) -> int:
        return len(self._waiting) + len(self._given)

    @property
    def awaited(self) -> str:
        """The transform that its messages wait for, the first of them at least; empty if none waits."""
        first = self._given or self._waiting
        return first[0].use.name if first and first[0].use is not None else ""

    def take(self, jobs: list[Job]) -> None:
        """Some messages come, in order."""
        for job in jobs:
            self._waiting.append(job)
            self._waiting_bytes += job.size_bytes
        while self._waiting_bytes > self._queue_bytes or len(self._waiting) > MAX_WAITING:
            oldest = self._waiting.popleft()
            self._waiting_bytes -= oldest.size_bytes
            self._sink.dropped(oldest)
        self._feed()
        if not self._looked_after:
            self._looked_after = True
            self._look_after(self)
        self._news.set()

    # -- to and from the process ----------------------------------------------------------------------------

    def _feed(self) -> None:
        """Give the process what it may have; let pass what needs none, when all before it has passed."""
        portion: list[Given] = []
        passed = False
        while self._waiting and len(self._given) < MAX_GIVEN and self._given_bytes < MAX_GIVEN_BYTES:
            job = self._waiting[0]
            if job.use is None:
                if self._given:
                    break
                self._take_first()
                self._sink.passed(job, job.payload)
                passed = True
                continue
            if self._worker is None or job.use is not self._use:
                break
            self._take_first()
            self._given.append(job)
            self._given_bytes += job.size_bytes
            portion.append(Given(job.message.subject, job.head, job.payload))
        if portion and self._worker is not None:
            self._worker.give(portion)
        if passed:
            self._sink.flush()

    def _take_first(self) -> Job:
        job = self._waiting.popleft()
        self._waiting_bytes -= job.size_bytes
        return job

    def _results(self, results: list[Result]) -> bool:
        """The process has answered some of what it was given, the first first; False if it cannot have."""
        if len(results) > len(self._given):
            return False
        for result in results:
            job = self._given.popleft()
            self._given_bytes -= job.size_bytes
            if result.outcome is Outcome.TRANSFORMED:
                if len(job.head) + len(result.payload) > self._max_message_bytes:
                    self._sink.failed(job, Failure.TOO_LARGE, f"{len(result.payload)} bytes and its headers")
                else:
                    self._sink.passed(job, result.payload)
                    self._pause_s = FIRST_PAUSE_S
            elif result.outcome is Outcome.LEFT_OUT:
                self._sink.left_out(job)
                self._pause_s = FIRST_PAUSE_S
            else:
                self._sink.failed(job, result.failure or Failure.RAISED, result.detail)
        self._answered += len(results)
        self._feed()
        self._sink.flush()
        if not self._given:
            self._news.set()
        return True

    def _lost(self) -> None:
        self._worker = None
        self._gone.set()
        self._news.set()

    # -- the process ----------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Look after the process, whenever there is something to do."""
        while True:
            self._news.clear()
            self._feed()
            if not self._waiting:
                await self._news.wait()
                continue
            use = self._waiting[0].use
            assert use is not None, "what needs no process has passed"
            if use.transform is None:
                self._refuse(use, UNKNOWN)
                continue
            try:
                await self._serve(use)
            except Exception:  # whatever is wrong here must not end the gateway
                log.exception("the transform %s of %s", use.name, self.match)
                await self._rest()

    async def _serve(self, use: Named) -> None:
        """One life of a process."""
        assert use.transform is not None
        max_bytes = min(use.transform.max_bytes or self._max_message_bytes, self._max_message_bytes)
        settings = WorkerSettings(transform=use.transform, max_bytes=max_bytes)
        worker = WorkerProcess(settings, self._results, self._lost)
        self._started[use.name] += 1
        self._answered = 0
        self._gone.clear()
        failure, detail, blamed = Failure.DIED, "", True
        try:
            await worker.start()
            self._worker, self._use = worker, use
            self._feed()
            if not await self._watch(worker, use.transform.time_ms / 1000):
                failure, detail = Failure.TOO_LONG, f"{use.transform.time_ms:g} ms are allowed"
        except WorkerFailedError as error:
            self._refuse(use, error.message)
            await self._rest()
            return
        finally:
            culprit, blamed = worker.done - self._answered, not worker.leaves
            self._worker = self._use = None
            await worker.end()
        if self._given or failure is Failure.TOO_LONG:
            self._give_again(culprit if blamed else None, failure, detail)
            log.warning("the transform %s of %s %s: its process is replaced", use.name, self.match, failure)
            await self._rest()

    async def _watch(self, worker: WorkerProcess, time_s: float) -> bool:
        """Until the process is not needed any more, or lost; False when it makes no progress."""
        before, still = -1, 0
        while self._worker is worker:
            self._news.clear()
            if not self._given:
                if self._waiting:
                    return True  # what is next needs another one
                try:
                    async with asyncio.timeout(IDLE_S):
                        await self._news.wait()
                except TimeoutError:
                    return True
                before, still = -1, 0
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(time_s / CHECKS):
                    await self._gone.wait()
            done = worker.done
            still = still + 1 if done == before and self._given else 0
            before = done
            if still >= CHECKS:
                return False
        return True

    def _give_again(self, culprit: int | None, failure: Failure, detail: str) -> None:
        """All that was not answered comes first, but for the message that it was all about.

        Somebody is to blame whenever a process dies, so that it is not the same again for ever.
        """
        given, self._given = list(self._given), deque()
        self._given_bytes = 0
        if culprit is not None and given:
            self._sink.failed(given.pop(min(max(culprit, 0), len(given) - 1)), failure, detail)
        self._waiting.extendleft(reversed(given))
        self._waiting_bytes += sum(job.size_bytes for job in given)
        self._sink.flush()

    def _refuse(self, use: Named, problem: str) -> None:
        """All that waits for a transform that cannot be had."""
        while self._waiting and self._waiting[0].use is use:
            self._sink.failed(self._take_first(), Failure.NOT_STARTED, problem)
        self._sink.flush()

    async def _rest(self) -> None:
        await asyncio.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, MAX_PAUSE_S)
