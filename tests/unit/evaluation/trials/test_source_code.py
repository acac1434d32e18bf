"""The copy of the code that executors get: the same for the same code, and enough to play a schedule."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from mangrove.evaluation.trials.experiment import MAIN, Task
from mangrove.evaluation.trials.schedules import schedules_trials
from mangrove.evaluation.trials.source_code import code_digest, packed

PLAY = """
import mangrove, sys
from mangrove.evaluation.trials.experiment import MAIN, Task
from mangrove.evaluation.trials.schedules import schedules_trials
sys.stderr.write(mangrove.__file__)
sys.stdout.write(schedules_trials().player(Task(MAIN, 7)).text)
"""


def test_a_schedule_is_played_from_the_copy_alone(tmp_path: Path) -> None:
    package = packed(tmp_path)
    first = package.read_bytes()
    assert code_digest() in package.name
    assert packed(tmp_path).read_bytes() == first
    done = subprocess.run(
        [sys.executable, "-c", PLAY],
        env={**os.environ, "PYTHONPATH": str(package)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(str(package))
    assert done.stdout == schedules_trials().player(Task(MAIN, 7)).text
