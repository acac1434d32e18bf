"""A process is weighed with its children, and runs with the source that it was given."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import pytest

from mangrove.host.process_tree import weigh, weighed


def test_a_process_has_memory_and_time_and_its_children_count() -> None:
    busy = "sum(range(3_000_000)); print(); input()"
    with subprocess.Popen([sys.executable, "-c", busy], stdin=PIPE, stdout=PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        found = weigh(child.pid)
        with_us = weigh(os.getpid())
        child.kill()
    assert 0 < found.total_bytes < with_us.total_bytes
    assert 0 < found.processor_s < with_us.processor_s
    assert found.java_bytes == 0


def test_a_command_runs_with_its_checkout_and_says_why_it_fails(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "early.py").write_text("NAME = 'before'\n")
    found = weighed([sys.executable, "-c", "import early; print(early.NAME)"], tmp_path)
    assert found["answer"] == "before\n"
    with pytest.raises(RuntimeError, match="no module of ours"):
        weighed([sys.executable, "-c", "raise SystemExit('no module of ours')"], tmp_path)
