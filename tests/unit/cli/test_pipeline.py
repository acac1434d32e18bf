"""Mistakes on the command line of the pipelines."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["profile", "--input", "x", "--output", "y"], "nothing says what the brokers can carry"),
        (["profile", "--input", "x", "--output", "y", "--capacity", "0"], "--capacity: 0"),
        (["profile", "--input", "x", "--output", "y", "--model", "none.json"], "cannot read the model"),
        (["slo", "--input", "x", "--output", "y", "--seconds", "5"], "--seconds goes with --stream"),
        (["cases", "--input", "x", "--output", "y", "--solver", "magic"], "--solver: 'magic'"),
        (["report", "--input", "nowhere", "--output", "y"], "nowhere is not a directory"),
        (["synthetic", "--output", "y", "--hours", "-1"], "--hours: -1"),
    ],
)
def test_mistakes_on_the_command_line_exit_with_2(arguments: list[str], message: str, tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "mangrove.cli.main", "pipeline", *arguments],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
        check=False,
    )
    assert (run.returncode, run.stdout) == (2, ""), run.stderr
    assert f"error: {message}" in run.stderr
    assert "Traceback" not in run.stderr
    assert list(tmp_path.iterdir()) == []
