"""A user's own utility function, which may raise, hang, or return anything: it runs in a thread of its own.

Neither the event loop nor the delivery of messages ever waits for it. What it does not judge in time is
unknown; a function that takes too long again and again is not called any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from numbers import Real
from queue import SimpleQueue
from typing import NamedTuple

from mangrove.client.message import Message
from mangrove.errors import InputError

log = logging.getLogger(__name__)

BATCH_S = 0.25
"""So long a function may take for the messages that it gets at once; the rest is left unjudged."""
STUCK_S = 4 * BATCH_S
"""A single call that takes longer is not waited for: others are judged in another thread."""
STRIKES = 3
"""So many times in a row a single call may exceed `BATCH_S`; then the function is given up."""
MAX_STUCK = 8
"""Threads of one connection that functions hang in; then no function is called any more."""

UtilityFunction = Callable[[Message], float]
Told = Callable[[Sequence[float | None]], None]


class _Outcome(NamedTuple):
    utilities: list[float | None]
    problems: Counter[str]
    too_long: bool
    """Whether a single call took too long."""


class UserFunction:
    """One subscription's function, and its record."""

    def __init__(self, subject: str, function: UtilityFunction, thread: UtilityThread) -> None:
        if not callable(function):
            raise InputError(f"a utility function must be callable, not {type(function).__name__}")
        if inspect.iscoroutinefunction(function):
            raise InputError("a utility function must not be async", hint="it runs in a thread of its own")
        self.subject = subject
        self.problems: Counter[str] = Counter()
        """Messages that it did not judge as it should, by reason."""
        self.given_up = False
        self._function = function
        self._thread = thread
        self._strikes = 0
        self._hangs = False

    def begin(self, messages: list[Message], told: Told) -> bool:
        """Judge messages; `told` is called in the event loop with their utilities, unless this is refused."""
        if self.given_up or self._hangs or not self._thread.begin(self, messages, told):
            self._note("not called", len(messages))
            return False
        return True

    def judge(self, messages: list[Message]) -> _Outcome:
        """Called in the thread."""
        utilities: list[float | None] = []
        problems: Counter[str] = Counter()
        too_long = False
        until = time.monotonic() + BATCH_S
        for message in messages:
            begun = time.monotonic()
            if begun >= until:
                utilities.append(None)
                problems["too slow"] += 1
                continue
            utility = None
            try:
                returned = self._function(message)
                problem = _problem_of(returned)
                if problem != NOT_A_NUMBER:
                    utility = min(max(float(returned), 0.0), 1.0)
            except BaseException as error:  # whatever it raises: this thread does nothing else
                problem = RAISED
                log.debug("the utility function for %s failed", self.subject, exc_info=error)
            if problem:
                problems[problem] += 1
            too_long = too_long or time.monotonic() - begun > BATCH_S
            utilities.append(utility)
        return _Outcome(utilities, problems, too_long)

    def finished(self, outcome: _Outcome) -> None:
        """Called in the event loop, also when it took too long."""
        for problem, count in outcome.problems.items():
            self._note(problem, count)
        if not outcome.too_long:
            self._strikes = 0
        elif not self._hangs:
            self._strike()
        self._hangs = False

    def stuck(self, messages: int) -> None:
        """Called in the event loop: a call does not come back."""
        self._hangs = True
        self._note("hangs", messages)
        self._strike()

    def _strike(self) -> None:
        self._strikes += 1
        if self._strikes >= STRIKES and not self.given_up:
            self.given_up = True
            log.warning("the utility function for %s takes too long and is not called any more", self.subject)

    def _note(self, problem: str, count: int) -> None:
        if problem not in self.problems:
            log.warning("the utility function for %s: %s", self.subject, EXPLANATIONS[problem])
        self.problems[problem] += count


RAISED = "raised"
NOT_A_NUMBER = "not a number"
OUT_OF_RANGE = "out of range"
EXPLANATIONS = {
    RAISED: "it raised an error; such messages are not judged (logged in full at level DEBUG)",
    NOT_A_NUMBER: "it did not return a finite number; such messages are not judged",
    OUT_OF_RANGE: "it returned a number outside of 0 to 1, which is clamped",
    "too slow": f"it took more than {BATCH_S:g} s for a batch; the rest of it is not judged",
    "hangs": f"a call took more than {STUCK_S:g} s and is not waited for",
    "not called": "it hangs, or was given up; messages are not judged",
}


def _problem_of(utility: object) -> str:
    if not isinstance(utility, Real) or isinstance(utility, bool) or not math.isfinite(utility):
        return NOT_A_NUMBER
    return "" if 0 <= float(utility) <= 1 else OUT_OF_RANGE


class _Job(NamedTuple):
    function: UserFunction
    messages: list[Message]
    told: Told


class _Lane:
    """What one thread is to do."""

    def __init__(self) -> None:
        self.jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self.left = False
        """Whether the thread is to end after what it does."""


class UtilityThread:
    """Runs the utility functions of one connection, one after the other, in a thread made when one is due.

    When a call does not come back, the thread is left to it and another is made. All are daemons: none keeps
    the process from ending.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lane: _Lane | None = None
        self._waiting: deque[_Job] = deque()
        """As the event loop sees it: jobs that have not come back, the first is being done."""
        self._begun_at = 0.0
        self._watch: asyncio.TimerHandle | None = None
        self._stuck = 0
        self._closed = False

    def begin(self, function: UserFunction, messages: list[Message], told: Told) -> bool:
        """Do a job soon; whether that is possible."""
        if self._closed or self._stuck >= MAX_STUCK:
            return False
        job = _Job(function, messages, told)
        self._loop = asyncio.get_running_loop()
        if not self._waiting:
            self._begun_at = self._loop.time()
        self._waiting.append(job)
        if self._lane is None:
            self._start()
        else:
            self._lane.jobs.put(job)
        if self._watch is None:
            self._watch = self._loop.call_later(STUCK_S, self._look)
        return True

    def close(self) -> None:
        """Begin nothing more; a thread that waits ends."""
        self._closed = True
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        self._leave()

    def _start(self) -> None:
        self._lane = lane = _Lane()
        for job in self._waiting:
            lane.jobs.put(job)
        threading.Thread(target=_work, args=(lane, self._came_back), name="utility", daemon=True).start()

    def _leave(self) -> None:
        """Let the thread end as soon as it can."""
        if self._lane is not None:
            self._lane.left = True
            self._lane.jobs.put(None)
            self._lane = None

    def _came_back(self, job: _Job, outcome: _Outcome) -> None:
        """Called in the thread."""
        loop = self._loop
        assert loop is not None, "it was given a job"
        with contextlib.suppress(RuntimeError):  # the loop has been closed
            loop.call_soon_threadsafe(self._finish, job, outcome)

    def _finish(self, job: _Job, outcome: _Outcome) -> None:
        assert self._loop is not None
        job.function.finished(outcome)
        if self._waiting and self._waiting[0] is job:
            self._waiting.popleft()
            self._begun_at = self._loop.time()
            job.told(outcome.utilities)
        else:  # it was not waited for
            self._stuck -= 1

    def _look(self) -> None:
        """Leave a thread that is stuck to itself."""
        assert self._loop is not None
        self._watch = None
        if not self._waiting:
            return
        if self._loop.time() - self._begun_at >= STUCK_S:
            job = self._waiting.popleft()
            self._stuck += 1
            self._leave()
            job.function.stuck(len(job.messages))
            job.told([None] * len(job.messages))
            self._begun_at = self._loop.time()
            if self._waiting and self._lane is None:
                self._start()
        self._watch = self._loop.call_later(STUCK_S, self._look)


def _work(lane: _Lane, came_back: Callable[[_Job, _Outcome], None]) -> None:
    while not lane.left and (job := lane.jobs.get()) is not None:
        came_back(job, job.function.judge(job.messages))
