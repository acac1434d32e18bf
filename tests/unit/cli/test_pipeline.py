"""Mistakes on the command line of the pipelines."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kit.command import mangrove

from mangrove.cli.pipeline.brokers import read_model
from mangrove.cli.pipeline.pipeline import _read_json
from mangrove.errors import InputError


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


@pytest.mark.parametrize("text", ["[" * 100_000, "9" * 5000])
def test_json_that_cannot_be_read_is_told(tmp_path: Path, text: str) -> None:
    path = tmp_path / "given.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"given\.json"):
        read_model(path)
    with pytest.raises(InputError, match="is not JSON"):
        _read_json(path)
