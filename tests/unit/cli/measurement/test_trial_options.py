"""The options that all experiments of many seeds share, as a user meets them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tests.kit.command import mangrove

from mangrove.cli.measurement.options import MAX_FAILURES_TOLD, failures
from mangrove.cli.measurement.trials.progress import TrialProgress, duration
from mangrove.evaluation.trials.experiment import MAIN, Played, Task

SMALL = ("gap", "--nodes", "60", "--m", "3", "--pairs", "6", "--regions", "10", "--workers", "1")


def evaluate(*arguments: str) -> subprocess.CompletedProcess[str]:
    return mangrove("evaluate", *arguments)


def test_a_second_run_plays_what_is_missing_and_gives_the_same(tmp_path: Path) -> None:
    kept = ("--results", str(tmp_path / "results"), "--json")
    first = evaluate(*SMALL, "--seeds", "2", *kept)
    assert first.returncode in (0, 1), first.stderr
    assert "2 trials played and kept, 0 read" in first.stderr
    second = evaluate(*SMALL, "--seeds", "3", *kept)
    assert "1 trials played and kept, 2 read" in second.stderr
    alone = evaluate(*SMALL, "--seeds", "3", "--json")
    assert json.loads(second.stdout) == json.loads(alone.stdout)
    other = evaluate(*SMALL, "--flat", "--seeds", "3", *kept)
    assert other.returncode == 2
    assert "holds results of other settings (main)" in other.stderr
    assert "experiment.json" in other.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--workers", "2", "--master", "local[2]"), "--workers is for processes of this machine"),
        (("--master", "local[2]", "--remote", "sc://127.0.0.1:1"), "exclude each other"),
        (("--remote", "http://127.0.0.1"), "sc://host:15002"),
        (("--seeds", "0"), "--seeds must be at least 1"),
    ],
)
def test_options_that_do_not_fit_are_refused(arguments: tuple[str, ...], words: str) -> None:
    done = evaluate("schedules", *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_progress_tells_done_rate_and_rest(capsys: pytest.CaptureFixture[str]) -> None:
    with TrialProgress(100, already=40) as progress:
        progress._began -= 20.0
        progress._told -= 60.0
        for seed in range(20):
            progress.advance(Played(Task(MAIN, seed), "", "story" if seed == 3 else ""))
        assert progress.rest(progress._began + 20.0) == "1 a second, 40 s left, 1 failed"
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1, "one line, and the next when some time has passed"
    assert lines[0].startswith("41 of 100 trials, ")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(12.3, "12 s"), (89, "89 s"), (150, "2 min"), (5340, "89 min"), (7260, "2 h 1 min")],
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_failures_are_told_with_their_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    story = "Traceback …\n  in draw\nValueError: [bad] luck"
    failed = [Played(Task(MAIN, seed), "", story) for seed in range(MAX_FAILURES_TOLD + 3)]
    lines = failures(failed)
    assert lines[0] == "seed 0 failed: ValueError: [bad] luck"
    assert lines[-1] == "3 more trials failed"
    assert capsys.readouterr().err.splitlines() == story.splitlines()
    assert failures([]) == []
