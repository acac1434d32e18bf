"""Unit files and the container file can be read, and name commands and options that exist."""

from __future__ import annotations

import configparser
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.exceptions import TyperException

from mangrove.cli.main import app

ROOT = Path(__file__).parents[4]
UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
CONTAINER = ROOT / "deploy" / "container" / "Containerfile"


def accepts(words: list[str]) -> None:
    """Let the command line read the words, without doing anything."""
    program: Any = typer.main.get_command(app)
    command = program.commands.get(words[0])
    assert command is not None, f"there is no command {words[0]}"
    command.make_context(words[0], words[1:])


def read_unit(path: Path) -> configparser.ConfigParser:
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(path.read_text())
    return unit


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_units_start_commands_that_exist(path: Path) -> None:
    unit = read_unit(path)
    assert {*unit.sections()} == {"Unit", "Service", "Install"}
    program, *words = shlex.split(unit["Service"]["ExecStart"].replace("%i", "seattle"))
    assert Path(program).name == "mangrove"
    accepts(words)
    assert unit["Service"]["User"] == "mangrove"
    assert unit["Service"]["Restart"] == "on-failure"


def test_there_is_a_unit_for_sites_and_one_for_metrics() -> None:
    assert [path.name for path in UNITS] == ["mangrove-metrics@.service", "mangrove@.service"]


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"\\\n", " ", CONTAINER.read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def test_the_container_copies_what_is_there_and_runs_what_exists() -> None:
    known = {*("FROM", "RUN", "COPY", "USER", "WORKDIR", "ENV", "VOLUME", "HEALTHCHECK", "STOPSIGNAL")}
    found = instructions()
    assert [word for word, _ in found if word not in known | {"ENTRYPOINT", "CMD"}] == []
    assert found[0][0] == "FROM"
    said = dict(found)
    assert json.loads(said["ENTRYPOINT"]) == ["mangrove"]
    accepts(json.loads(said["CMD"]))
    for word, rest in found:
        if word == "COPY":
            assert all((ROOT / name).exists() for name in rest.split()[:-1]), rest
    command = json.loads(said["HEALTHCHECK"].partition("CMD ")[2])
    compile(command[2], "HEALTHCHECK", "exec")
    assert "MANGROVE_HEALTH_URL=" in said["ENV"]
    assert said["USER"] == "mangrove", "not as root"


def test_what_the_comment_of_the_container_tells_to_run_exists() -> None:
    (told,) = re.findall(r"--network host mangrove (.*)", CONTAINER.read_text())
    accepts(told.split())


@pytest.mark.parametrize("words", [["fly"], ["up", "x.yaml", "--wings"], ["metrics", "--port", "none"]])
def test_the_check_can_fail(words: list[str]) -> None:
    with pytest.raises((AssertionError, TyperException)):
        accepts(words)
