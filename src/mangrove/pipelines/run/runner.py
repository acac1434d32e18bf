"""Runs the steps of a pipeline, one after the other, and says what became of each.

A step that fails, be it because the disk is full, does not stop those that need nothing of it. What the
cluster did is tried again, with longer and longer pauses; what is wrong with the input is not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from mangrove.errors import MangroveError
from mangrove.pipelines.run import fingerprint
from mangrove.pipelines.run.document import Job, Pipeline, Step
from mangrove.pipelines.session.failures import ClusterLostError
from mangrove.pipelines.session.time_limit import time_limit

FIRST_PAUSE_S = 2.0
LONGEST_PAUSE_S = 60.0


class Outcome(Enum):
    """What became of a step."""

    DONE = "done"
    NEGATIVE = "negative answer"
    UNCHANGED = "unchanged"
    FAILED = "failed"
    NOT_RUN = "not run"

    @property
    def has_output(self) -> bool:
        """Whether steps that read from it can run."""
        return self in (Outcome.DONE, Outcome.NEGATIVE, Outcome.UNCHANGED)


@dataclass(frozen=True, slots=True)
class StepReport:
    """One line of the report."""

    step: str
    job: str
    outcome: str
    seconds: float
    tries: int
    output: str
    message: str = ""
    hint: str = ""
    summary: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a job said at its end."""

    summary: Mapping[str, Any]
    positive: bool = True


class Executor(Protocol):
    """Whoever can run a job."""

    def run(self, step: Step, arguments: Mapping[str, object]) -> Answer:
        """Run it to its end; `MangroveError` if it fails, with nothing written."""

    def broken_off(self) -> None:
        """A step was broken off: what it left running in the cluster ends."""

    def restart(self) -> None:
        """The cluster failed: the next step starts with a new session."""


def run_pipeline(
    pipeline: Pipeline,
    jobs: Mapping[str, Job],
    executor: Executor,
    *,
    resume: bool = False,
    progress: Callable[[str], None] = lambda _: None,
    pause: Callable[[float], None] = time.sleep,
) -> list[StepReport]:
    """All steps in order."""
    outcomes: dict[str, Outcome] = {}
    reports: list[StepReport] = []
    for number, step in enumerate(pipeline.steps, 1):
        head = f"step {number} of {len(pipeline.steps)}, {step.name}"
        missing = [name for name in step.after if not outcomes[name].has_output]
        if missing:
            report = _report(pipeline, step, Outcome.NOT_RUN, message=f"needs {', '.join(missing)}")
        elif resume and fingerprint.is_current(pipeline, step, jobs[step.job]):
            report = _report(pipeline, step, Outcome.UNCHANGED)
        else:
            report = _StepRun(pipeline, step, jobs[step.job], executor, progress, pause).run(head)
        outcomes[step.name] = Outcome(report.outcome)
        progress(f"{head}: {report.outcome}" + (f": {report.message}" if report.message else ""))
        reports.append(report)
    return reports


@dataclass(slots=True)
class _StepRun:
    pipeline: Pipeline
    step: Step
    job: Job
    executor: Executor
    progress: Callable[[str], None]
    pause: Callable[[float], None]

    def run(self, head: str) -> StepReport:
        step, began = self.step, time.monotonic()
        pause_s = FIRST_PAUSE_S
        for tries in range(1, step.retries + 2):
            self.progress(head if tries == 1 else f"{head}: try {tries}")
            try:
                made_from = fingerprint.of_step(self.pipeline, step, self.job)
                fingerprint.forget(self.pipeline, step)
                answer = self._once()
                self._remember(head, made_from)
            except ClusterLostError as error:
                failed: MangroveError = error
                self.executor.restart()
                if tries <= step.retries:
                    self.progress(f"{head}: {error.message}; again in {pause_s:g} s")
                    self.pause(pause_s)
                    pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            except (MangroveError, OSError) as error:
                failed = error if isinstance(error, MangroveError) else self._refused(error)
                self.executor.broken_off()
                break
            else:
                outcome = Outcome.DONE if answer.positive else Outcome.NEGATIVE
                seconds = time.monotonic() - began
                return _report(
                    self.pipeline, step, outcome, seconds=seconds, tries=tries, summary=answer.summary
                )
        return _report(
            self.pipeline,
            step,
            Outcome.FAILED,
            seconds=time.monotonic() - began,
            tries=tries,
            message=failed.message,
            hint=failed.hint,
        )

    def _remember(self, head: str, made_from: str | None) -> None:
        """The output is there, whether this can be noted or not."""
        try:
            fingerprint.remember(self.pipeline, self.step, made_from)
        except OSError as error:
            self.progress(
                f"{head}: --resume will run it again, because that it is done cannot be noted: {error}"
            )

    def _refused(self, error: OSError) -> MangroveError:
        """What a disk, or whatever else the system knows, did not do for the step."""
        place = self.pipeline.output_of(self.step.name)
        return MangroveError(
            f"step {self.step.name}, which writes to {place}, failed: {error}",
            hint="is there room, and may this user write there? then run again with --resume",
        )

    def _once(self) -> Answer:
        arguments = self.pipeline.arguments(self.step, self.job)
        with time_limit(self.step.time_limit_s, f"step {self.step.name}"):
            return self.executor.run(self.step, arguments)


def _report(
    pipeline: Pipeline,
    step: Step,
    outcome: Outcome,
    *,
    seconds: float = 0.0,
    tries: int = 0,
    message: str = "",
    hint: str = "",
    summary: Mapping[str, Any] | None = None,
) -> StepReport:
    output = str(pipeline.output_of(step.name)) if outcome.has_output else ""
    return StepReport(
        step.name, step.job, outcome.value, round(seconds, 3), tries, output, message, hint, summary or {}
    )
