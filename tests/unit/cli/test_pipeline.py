"""Mistakes on the command line of the pipelines."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kit.command import mangrove


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["profile", "--input", "x", "--output", "y"], "nothing says what the brokers can carry"),
        (["profile", "--input", "x", "--output", "y", "--capacity", "0"], "--capacity: 0"),
        (["profile", "--input", "x", "--output", "y", "--model", "none.json"], "cannot read the model"),
        (["profile", "--output", "y", "--capacity", "1", "--stream"], "--stream keeps a state"),
        (["profile", "--output", "y", "--capacity", "1", "--since", "noon"], "--since: 'noon' is not a day"),
        (["slo", "--input", "x", "--output", "y", "--seconds", "5"], "--seconds goes with --stream"),
        (["cases", "--input", "x", "--output", "y", "--solver", "magic"], "--solver: 'magic'"),
        (["report", "--input", "nowhere", "--output", "y"], "nowhere is not a directory"),
        (["synthetic", "--output", "y", "--hours", "-1"], "--hours: -1"),
    ],
)
def test_mistakes_on_the_command_line_exit_with_2(arguments: list[str], message: str, tmp_path: Path) -> None:
    run = mangrove("pipeline", *arguments, cwd=tmp_path)
    assert (run.returncode, run.stdout) == (2, ""), run.stderr
    assert f"error: {message}" in run.stderr
    assert "Traceback" not in run.stderr
    assert list(tmp_path.iterdir()) == []
