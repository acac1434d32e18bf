"""Ten million mutated frames and handshakes, with the memory of the processes before and after."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from tests.kit.fuzz_run import FuzzReport, depth, shallow

INPUTS = 10_000_000
SEED = 1_600
ROOT = Path(__file__).parents[2]
GROWTH_MB = 8.0
"""So much may the memory of a process that has filled its tables still grow, by fragmentation alone."""


def _run(seed: int, count: int) -> FuzzReport:
    answer = subprocess.run(
        [sys.executable, "-m", "tests.kit.fuzz_run", str(seed), str(count)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        capture_output=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr.decode()[-4000:]
    return msgspec.json.decode(answer.stdout, type=FuzzReport)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_ten_million_mutated_inputs_break_nothing_and_leak_nothing() -> None:
    processes = max(2, os.cpu_count() or 1)
    with ThreadPoolExecutor(processes) as pool:
        count = -(-INPUTS // processes)
        reports = list(pool.map(lambda index: _run(SEED + index, count), range(processes)))
    for report in reports:
        print(  # noqa: T201
            f"seed {report.seed}: {report.inputs:,} inputs in {report.seconds:.0f} s, "
            f"memory {report.memory_before_mb:.1f} MB before, {report.memory_after_mb:.1f} MB after"
        )
    print(depth(reports))  # noqa: T201
    assert sum(report.inputs for report in reports) >= INPUTS
    assert not shallow(reports)
    assert all(report.memory_after_mb - report.memory_before_mb < GROWTH_MB for report in reports)
