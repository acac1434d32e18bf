"""The check for processes left behind can fail."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.kit import leftovers


def test_a_process_left_behind_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "PATIENCE_S", 0.1)
    assert leftovers.leftovers() == []
    code = "import sys; print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", code, "mangrove.gateway.daemon"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as left:
        assert left.stdout is not None
        left.stdout.readline()
        assert [line.split(":")[0] for line in leftovers.leftovers()] == [str(left.pid)]
    assert leftovers.leftovers() == []
