"""A pipeline file, read and checked as a whole before anything starts.

What a job is and which options it has is not known here: whoever runs the jobs describes them (`Job`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mangrove.errors import InputError, Mistakes
from mangrove.pipelines.output import check_output

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
PIPELINE_KEYS = ("pipeline", "output", "input", "retries", "time_limit_s", "steps")
STEP_KEYS = ("name", "job", "input", "from", "options", "retries", "time_limit_s")
MAX_STEPS = 200
MAX_RETRIES = 20
DEFAULT_RETRIES = 2
# Names under the output directory that are not steps'.
RESERVED = ("report",)


@dataclass(frozen=True, slots=True)
class Job:
    """What a pipeline file must know of a job."""

    name: str
    options: frozenset[str]
    paths: frozenset[str] = frozenset()
    """Options that are paths: relative ones start where the file is."""
    input: str = "input"
    """The option or argument that `input` and `from` stand for; empty: the job reads nothing."""
    input_file: str = ""
    """The file within an earlier step's output that the job reads; empty: the directory."""
    problem: Callable[[Mapping[str, object]], str] = field(default=lambda _: "", compare=False)
    """What is wrong with these options, if anything."""


@dataclass(frozen=True, slots=True)
class Use:
    """An option whose value is made by an earlier step: its output, or a file of it."""

    step: str
    file: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """One job with its options."""

    name: str
    job: str
    input: str = ""
    """A path or URL from outside, if it reads one."""
    after: tuple[str, ...] = ()
    uses: Mapping[str, Use] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)
    retries: int = DEFAULT_RETRIES
    time_limit_s: float | None = None


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Steps in the order in which they run."""

    name: str
    directory: Path
    """Of the file: paths in it start there."""
    output: Path
    steps: tuple[Step, ...]

    def output_of(self, step: str) -> Path:
        """Where a step writes."""
        return self.output / step

    def place(self, text: str) -> str:
        """A path of the file, from where the file is; URLs as they are."""
        return text if "://" in text else str(self.directory / text)

    def arguments(self, step: Step, job: Job) -> dict[str, object]:
        """All options of a step with their values; those made by earlier steps are paths."""
        values: dict[str, object] = {
            option: self.place(value) if option in job.paths and isinstance(value, str) else value
            for option, value in step.options.items()
        }
        for option, use in step.uses.items():
            made = self.output_of(use.step) if use.step else self.output
            values[option] = str(made / use.file if use.file else made)
        if step.input:
            values[job.input] = self.place(step.input)
        return values


def read_pipeline(document: object, source: Path, jobs: Mapping[str, Job]) -> Pipeline:
    """The document as a pipeline; all mistakes at once, each with its place and what is allowed."""
    mistakes = Mistakes(str(source), hint="docs/how-to/run-pipelines.md shows a pipeline file")
    if not isinstance(document, dict):
        mistakes.note("", "is no pipeline", f"a mapping with the keys {', '.join(PIPELINE_KEYS)}")
        mistakes.raise_if_any()
    assert isinstance(document, dict)
    _keys(document, PIPELINE_KEYS, "", mistakes)
    name = document.get("pipeline", source.stem)
    if not _is_name(name):
        mistakes.note("pipeline", f"{name!r} is no name", "letters, digits, - and _")
    output = document.get("output")
    if not isinstance(output, str) or not output or "://" in output:
        mistakes.note("output", "must say where the steps write", "a directory of this machine")
        output = "out"
    steps = _steps(document, jobs, mistakes)
    _references(steps, mistakes)
    ordered = _ordered(steps, mistakes)
    pipeline = Pipeline(str(name), source.parent, source.parent / output, ordered)
    for place, step in steps.items():
        job = jobs.get(step.job)
        if job is not None and not mistakes.any_under(place):
            _values(pipeline, step, job, place, mistakes)
    mistakes.raise_if_any()
    return pipeline


def _steps(document: dict[Any, Any], jobs: Mapping[str, Job], mistakes: Mistakes) -> dict[str, Step]:
    given = document.get("steps")
    if not isinstance(given, list) or not 0 < len(given) <= MAX_STEPS:
        mistakes.note("steps", "must list what to do", f"1 to {MAX_STEPS} steps, each with name and job")
        return {}
    found: dict[str, Step] = {}
    names: set[str] = set()
    for number, each in enumerate(given):
        place = f"steps[{number}]"
        if not isinstance(each, dict):
            mistakes.note(place, "is no step", f"a mapping with the keys {', '.join(STEP_KEYS)}")
            continue
        _keys(each, STEP_KEYS, place, mistakes)
        job = each.get("job")
        if not isinstance(job, str) or job not in jobs:
            mistakes.note(f"{place}.job", f"{job!r} is no job", ", ".join(sorted(jobs)))
            job = ""
        name = each.get("name", job.replace(" ", "-") if job else "?")
        if not _is_name(name) or name in RESERVED:
            allowed = f"letters, digits, - and _; not {', '.join(RESERVED)}, which is the run's own"
            mistakes.note(f"{place}.name", f"{name!r} is no name for a step", allowed)
        elif name in names:
            mistakes.note(f"{place}.name", f"a second step {name!r}", "each name once")
        names.add(str(name))
        found[place] = _step(each, str(name), jobs.get(job), document, place, mistakes)
    return found


def _step(
    each: dict[Any, Any],
    name: str,
    job: Job | None,
    document: dict[Any, Any],
    place: str,
    mistakes: Mistakes,
) -> Step:
    main = job.input if job is not None else "input"
    after, uses = _from(each.get("from"), job, f"{place}.from", mistakes)
    input_ = each.get("input", "" if main in uses or not main else document.get("input", ""))
    if not isinstance(input_, str):
        mistakes.note(f"{place}.input", f"{input_!r} is no input", "a path or a URL")
        input_ = ""
    if "input" in each and main in uses:
        mistakes.note(f"{place}.input", "the step already reads `from` another", "`input` or `from`")
    options = each.get("options", {})
    if not isinstance(options, dict) or not all(isinstance(key, str) for key in options):
        mistakes.note(f"{place}.options", "must be options by name", "e.g. {peak: all}")
        options = {}
    if job is not None:
        for option in (*options, *(option for option in uses if option != job.input)):
            if option not in job.options:
                allowed = ", ".join(sorted(job.options)) or "none"
                mistakes.note(f"{place}.options.{option}", f"the job {job.name} has no such option", allowed)
    limits = {key: each.get(key, document.get(key)) for key in ("retries", "time_limit_s")}
    retries, limit_s = limits["retries"], limits["time_limit_s"]
    if retries is None:
        retries = DEFAULT_RETRIES
    if isinstance(retries, bool) or not isinstance(retries, int) or not 0 <= retries <= MAX_RETRIES:
        mistakes.note(f"{place}.retries", f"{retries!r}", f"0 to {MAX_RETRIES}")
        retries = 0
    if limit_s is not None and not _is_seconds(limit_s):
        mistakes.note(f"{place}.time_limit_s", f"{limit_s!r}", "seconds, above 0")
        limit_s = None
    return Step(name, "" if job is None else job.name, input_, after, uses, options, retries, limit_s)


def _from(
    given: object, job: Job | None, place: str, mistakes: Mistakes
) -> tuple[tuple[str, ...], dict[str, Use]]:
    """`from: step`, `from: [step, step]` (their common directory) or `from: {option: step/file}`."""
    main = job.input if job is not None else "input"
    file = job.input_file if job is not None else ""
    if given is None:
        return (), {}
    if isinstance(given, str):
        return (given,), {main: Use(given, file)}
    if isinstance(given, list) and given and all(isinstance(each, str) for each in given):
        return tuple(given), {main: Use("")}
    if isinstance(given, dict) and given and all(isinstance(each, str) for each in given.values()):
        uses = {}
        for option, text in given.items():
            step, _, own = text.partition("/")
            if ".." in Path(own).parts:
                mistakes.note(f"{place}.{option}", f"{text!r} leads out of the step's output", "step/file")
            target = main if option == "input" else str(option)
            uses[target] = Use(step, own or (file if target == main else ""))
        return tuple(dict.fromkeys(use.step for use in uses.values())), uses
    mistakes.note(place, f"{given!r}", "a step, a list of steps, or {option: step/file}")
    return (), {}


def _references(steps: Mapping[str, Step], mistakes: Mistakes) -> None:
    names = {step.name for step in steps.values()}
    for place, step in steps.items():
        for other in step.after:
            if other not in names:
                mistakes.note(f"{place}.from", f"there is no step {other!r}", ", ".join(sorted(names)))


def _ordered(steps: Mapping[str, Step], mistakes: Mistakes) -> tuple[Step, ...]:
    """Each step after those it reads from; otherwise as in the file."""
    waiting = list(steps.items())
    names = {step.name for step in steps.values()}
    done: set[str] = set()
    ordered: list[Step] = []
    while waiting:
        ready = next((e for e in waiting if done.issuperset(set(e[1].after) & names)), None)
        if ready is None:
            circle = ", ".join(step.name for _, step in waiting)
            mistakes.note(f"{waiting[0][0]}.from", f"these steps wait for each other: {circle}", "no circles")
            break
        waiting.remove(ready)
        ordered.append(ready[1])
        done.add(ready[1].name)
    return tuple(ordered)


def _values(pipeline: Pipeline, step: Step, job: Job, place: str, mistakes: Mistakes) -> None:
    if step.input and "://" not in step.input and not Path(pipeline.place(step.input)).exists():
        mistakes.note(f"{place}.input", f"{step.input!r} does not exist", "an existing directory, or a URL")
        return
    try:
        check_output(pipeline.output_of(step.name), job.name)
    except InputError as error:
        mistakes.note(f"{place}.name", error.message.removeprefix("--output: "), error.hint)
    if problem := job.problem(pipeline.arguments(step, job)):
        mistakes.note(f"{place}.options", problem, f"see mangrove {_command(job.name)} --help")


def _command(job: str) -> str:
    return job if " " in job else f"pipeline {job}"


def _keys(given: Mapping[Any, Any], known: Sequence[str], place: str, mistakes: Mistakes) -> None:
    for key in given:
        if key not in known:
            mistakes.note(f"{place}.{key}".lstrip("."), "unknown key", ", ".join(known))


def _is_name(value: object) -> bool:
    return isinstance(value, str) and NAME.fullmatch(value) is not None


def _is_seconds(value: object) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and math.isfinite(value) and value > 0  # type: ignore[arg-type, operator]
