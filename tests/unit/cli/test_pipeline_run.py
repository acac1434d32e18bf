"""What a run says at its end, also where it can write little of it."""

from __future__ import annotations

import errno
import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.kit.command import mangrove

from mangrove.cli.pipeline import run_jobs
from mangrove.pipelines.jobs import report
from mangrove.pipelines.output import output_directory, write_json
from mangrove.pipelines.run.document import Step
from mangrove.pipelines.run.runner import Answer

FILE = "{pipeline: night, output: out, steps: [{name: lake, job: synthetic}]}"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pipeline whose step does nothing but succeed."""

    def done(executor: run_jobs.CommandExecutor, step: Step, _: Mapping[str, object]) -> Answer:
        with output_directory(tmp_path / "out" / step.name, step.job) as directory:
            write_json(directory / "summary.json", {})
        return Answer({"topics": 7})

    monkeypatch.setattr(run_jobs.CommandExecutor, "run", done)
    (tmp_path / "night.yaml").write_text(FILE)
    return tmp_path


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), ValueError("no Parquet"), KeyError("windows")]
)
def test_a_report_that_cannot_be_written_does_not_cost_the_answer(
    place: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(report, "run", refused)
    told = mangrove("pipeline", "run", "night.yaml", "--json", cwd=place)
    assert told.returncode == 1
    answer = json.loads(told.stdout)
    assert [step["outcome"] for step in answer["steps"]] == ["done"]
    assert json.loads((place / "out" / "run.json").read_text()) == answer
    assert "error: the report is not written" in told.stderr
    assert "hint: what the steps wrote is there" in told.stderr
    assert "Traceback" not in told.stderr
    shown = mangrove("pipeline", "run", "night.yaml", cwd=place)
    assert shown.returncode == 1
    assert "done" in shown.stdout


def test_a_run_file_that_cannot_be_written_costs_neither_answer_nor_report(place: Path) -> None:
    (place / "out" / "run.json").mkdir(parents=True)
    told = mangrove("pipeline", "run", "night.yaml", "--json", cwd=place)
    assert told.returncode == 1
    assert [step["outcome"] for step in json.loads(told.stdout)["steps"]] == ["done"]
    assert "error: run.json is not written" in told.stderr
    assert (place / "out" / "report" / "report.html").is_file()
    assert not list((place / "out").glob(".run.json*"))


def test_a_place_that_is_not_the_reports_is_refused_before_anything_runs(place: Path) -> None:
    (place / "out" / "report").mkdir(parents=True)
    (place / "out" / "report" / "thesis.txt").write_text("")
    told = mangrove("pipeline", "run", "night.yaml", "--json", cwd=place)
    assert (told.returncode, told.stdout) == (2, "")
    assert "report holds files that" in told.stderr
    assert not (place / "out" / "lake").exists()
