"""The commands of docs/how-to/plan-routes.md run as they stand there."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from tests.kit.command import mangrove

GUIDE = (Path(__file__).parents[3] / "docs" / "how-to" / "plan-routes.md").read_text()
COMMANDS = re.findall(r"^\$ mangrove (.+)$", GUIDE, re.MULTILINE)


def test_guide_has_commands() -> None:
    assert len(COMMANDS) >= 10


@pytest.mark.parametrize("command", COMMANDS)
def test_command_of_the_guide(command: str, tmp_path: Path) -> None:
    topology = re.search(r"```json\n(.*?)```", GUIDE, re.DOTALL)
    assert topology
    (tmp_path / "pacific.json").write_text(topology[1])
    done = mangrove(*shlex.split(command), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    if "--json" in command:
        json.loads(done.stdout)
