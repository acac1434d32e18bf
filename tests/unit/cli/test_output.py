"""An output that takes nothing more: the command says so, once, unless its reader has gone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROBLEM = Path(__file__).parents[2] / "data" / "allocation_6x3.json"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
def test_a_full_disk_behind_the_output_is_told() -> None:
    with Path("/dev/full").open("w") as full:
        run = subprocess.run(
            [sys.executable, "-m", "mangrove.cli.main", "--version"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert run.returncode == 1
    assert run.stderr.splitlines() == [
        "error: cannot write the output: No space left on device",
        "hint: make room there, or write elsewhere",
    ]


def test_a_reader_that_has_gone_costs_no_words() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "mangrove.cli.main", "plan", "allocate", str(PROBLEM), "--json"]
    run = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (run.returncode, run.stderr) == (1, "")
