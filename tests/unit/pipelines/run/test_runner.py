"""Steps in order: what fails, what is tried again, what is left out the second time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from mangrove.errors import InputError, MangroveError
from mangrove.pipelines.output import output_directory
from mangrove.pipelines.run import fingerprint
from mangrove.pipelines.run.document import Job, Pipeline, Step, read_pipeline
from mangrove.pipelines.run.runner import Answer, StepReport, run_pipeline
from mangrove.pipelines.session.failures import ClusterLostError

JOBS = {
    "copy": Job("copy", frozenset({"times", "groups"}), frozenset({"groups"})),
    "plan": Job("plan", frozenset({"seed"}), input_file="answer"),
}


class Copier:
    """Jobs that copy their input, and fail as they are told."""

    def __init__(self, pipeline: Pipeline, failures: Mapping[str, list[Exception | None]]) -> None:
        self.pipeline = pipeline
        self.failures = {name: list(each) for name, each in failures.items()}
        self.ran: list[str] = []
        self.restarts = 0
        self.cancelled = 0
        self.negative: set[str] = set()
        self.during: Callable[[], None] = lambda: None

    def run(self, step: Step, arguments: Mapping[str, object]) -> Answer:
        self.ran.append(step.name)
        self.during()
        failures = self.failures.get(step.name)
        if failures and (failure := failures.pop(0)) is not None:
            raise failure
        source = Path(str(arguments["input"]))
        text = source.read_text() if source.is_file() else ",".join(p.name for p in sorted(source.iterdir()))
        with output_directory(self.pipeline.output_of(step.name), step.job) as directory:
            (directory / "answer").write_text(f"{step.name}({text})")
        return Answer({"length": len(text)}, step.name not in self.negative)

    def broken_off(self) -> None:
        self.cancelled += 1

    def restart(self) -> None:
        self.restarts += 1


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "rows").write_text("1")
    (tmp_path / "groups.json").write_text("{}")
    steps = [
        {"name": "first", "job": "copy", "input": "lake", "options": {"groups": "groups.json"}},
        {"name": "plan", "job": "plan", "from": "first"},
        {"name": "apart", "job": "copy", "input": "lake"},
    ]
    return read_pipeline({"output": "out", "steps": steps, "retries": 2}, tmp_path / "night.yaml", JOBS)


def outcomes(reports: list[StepReport]) -> dict[str, str]:
    return {report.step: report.outcome for report in reports}


def lost() -> ClusterLostError:
    return ClusterLostError("the cluster went away", hint="run again")


def test_what_the_cluster_does_is_tried_again_with_pauses(pipeline: Pipeline) -> None:
    executor = Copier(pipeline, {"first": [lost(), lost(), None]})
    pauses: list[float] = []
    reports = run_pipeline(pipeline, JOBS, executor, pause=pauses.append)
    assert outcomes(reports) == {"first": "done", "plan": "done", "apart": "done"}
    assert [report.tries for report in reports] == [3, 1, 1]
    assert pauses == [2.0, 4.0]
    assert executor.restarts == 2
    assert (pipeline.output / "plan" / "answer").read_text() == "plan(first(rows))"


def test_tries_are_limited_and_only_what_needs_it_is_left_out(pipeline: Pipeline) -> None:
    executor = Copier(pipeline, {"first": [lost(), lost(), lost(), lost()]})
    reports = run_pipeline(pipeline, JOBS, executor, pause=lambda _: None)
    assert outcomes(reports) == {"first": "failed", "plan": "not run", "apart": "done"}
    assert reports[0].tries == 3
    assert reports[0].hint == "run again"
    assert reports[1].message == "needs first"
    assert not (pipeline.output / "first").exists()


@pytest.mark.parametrize("error", [InputError("no table"), MangroveError("Spark failed: a column")])
def test_bad_input_is_not_tried_again(error: MangroveError, pipeline: Pipeline) -> None:
    executor = Copier(pipeline, {"first": [error, None]})
    reports = run_pipeline(pipeline, JOBS, executor, pause=lambda _: pytest.fail("paused"))
    assert (reports[0].outcome, reports[0].tries, reports[0].message) == ("failed", 1, error.message)
    assert executor.restarts == 0
    assert executor.cancelled == 1


def test_a_negative_answer_is_an_output(pipeline: Pipeline) -> None:
    executor = Copier(pipeline, {})
    executor.negative = {"first"}
    assert outcomes(run_pipeline(pipeline, JOBS, executor))["first"] == "negative answer"
    assert executor.ran == ["first", "plan", "apart"]


def test_a_step_has_its_own_time(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    step = {"name": "slow", "job": "copy", "input": "lake", "time_limit_s": 0.05}
    slow = read_pipeline({"output": "out", "steps": [step]}, tmp_path / "night.yaml", JOBS)
    executor = Copier(slow, {})
    executor.during = lambda: time.sleep(30)
    (report,) = run_pipeline(slow, JOBS, executor)
    assert report.message == "step slow: cancelled after the time limit of 0.05 s"
    assert (report.tries, executor.cancelled) == (1, 1)


def test_a_resumed_run_leaves_out_what_is_whole_and_unchanged(pipeline: Pipeline, tmp_path: Path) -> None:
    def again(*expected: str, resume: bool = True) -> None:
        executor = Copier(pipeline, {})
        reports = run_pipeline(pipeline, JOBS, executor, resume=resume)
        assert executor.ran == list(expected)
        for report in reports:
            assert report.outcome == ("done" if report.step in expected else "unchanged")

    again("first", "plan", "apart")
    again()
    again("first", "plan", "apart", resume=False)
    (tmp_path / "lake" / "more").write_text("2")
    again("first", "plan", "apart")
    # A file that is an option, a damaged output, an output that is gone.
    (tmp_path / "groups.json").write_text("[]")
    again("first", "plan")
    (pipeline.output / "plan" / "answer").write_text("other")
    again("plan")
    (pipeline.output / "apart" / "_mangrove_job").unlink()
    (pipeline.output / "apart" / "answer").unlink()
    again("apart")
    # A step that failed is not taken for done because its earlier output is still there.
    executor = Copier(pipeline, {"first": [InputError("bad")]})
    run_pipeline(pipeline, JOBS, executor)
    again("first", "plan")


def test_a_full_disk_fails_its_step_alone(pipeline: Pipeline) -> None:
    executor = Copier(pipeline, {"first": [OSError(28, "No space left on device")]})
    reports = run_pipeline(pipeline, JOBS, executor, pause=lambda _: pytest.fail("paused"))
    assert outcomes(reports) == {"first": "failed", "plan": "not run", "apart": "done"}
    assert "No space left on device" in reports[0].message
    assert str(pipeline.output / "first") in reports[0].message
    assert "is there room" in reports[0].hint
    assert executor.cancelled == 1


def test_notes_that_cannot_be_removed_fail_their_step(pipeline: Pipeline) -> None:
    pipeline.output.mkdir()
    (pipeline.output / ".run").write_text("a file where notes should be")
    reports = run_pipeline(pipeline, JOBS, Copier(pipeline, {}), resume=True)
    assert outcomes(reports) == {"first": "failed", "plan": "not run", "apart": "failed"}
    assert ".run" in reports[0].message


def test_what_cannot_be_noted_is_there_all_the_same(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(fingerprint, "write_json", full)
    told: list[str] = []
    reports = run_pipeline(pipeline, JOBS, Copier(pipeline, {}), progress=told.append)
    assert outcomes(reports) == {"first": "done", "plan": "done", "apart": "done"}
    assert sum("--resume will run it again" in line for line in told) == 3
    again = Copier(pipeline, {})
    monkeypatch.undo()
    run_pipeline(pipeline, JOBS, again, resume=True)
    assert again.ran == ["first", "plan", "apart"]
