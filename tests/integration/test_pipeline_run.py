"""`mangrove pipeline run` from a lake to a plan, with real commands and one real Spark session."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.kit.spark_processes import PATIENCE_S, environment

pytestmark = pytest.mark.timeout(900)

FILE = """
pipeline: night
output: out
retries: 1
steps:
  - {name: lake, job: synthetic, options: {topics: 4, hours: 0.25, domain: [north], seed: 2}}
  - name: profile
    job: profile
    from: lake
    options: {peak: all, capacity: 400, brokers: 2}
  - {name: availability, job: availability, from: lake, time_limit_s: 100}
  - {name: plan, job: plan allocate, from: profile, options: {solver: search, seed: 1}}
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mangrove.cli.main", "pipeline", "run", *arguments],
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
        check=False,
        env=environment(),
    )


def test_from_a_lake_to_a_plan_and_again(tmp_path: Path) -> None:
    file = tmp_path / "night.yaml"
    file.write_text(FILE)
    first = run(str(file), "--master", "local[2]", "--memory", "1g", "--json")
    assert first.returncode == 0, first.stderr[-3000:]
    answer = json.loads(first.stdout)
    assert [(step["step"], step["outcome"]) for step in answer["steps"]] == [
        ("lake", "done"),
        ("profile", "done"),
        ("availability", "done"),
        ("plan", "done"),
    ]
    assert answer["sessions"] == 1
    assert "Traceback" not in first.stderr
    plan = json.loads((tmp_path / "out" / "plan" / "plan.json").read_text())
    assert sum(len(items) for items in plan["allocation"].values()) == 4
    page = Path(answer["report"]).read_text()
    for heading in ("Run", "Plan", "Workload", "Availability"):
        assert f">{heading}</h2>" in page
    # Again: nothing has changed, so Spark is not even started.
    again = run(str(file), "--resume", "--remote", "sc://127.0.0.1:1")
    assert again.returncode == 0, again.stderr[-3000:]
    assert again.stdout.count("unchanged") == 4
    # A mistake anywhere: nothing starts.
    file.write_text(FILE.replace("solver: search", "solver: sarch").replace("from: lake,", "from: lkae,"))
    bad = run(str(file))
    assert bad.returncode == 2
    assert "steps[2].from: there is no step 'lkae'" in bad.stderr
    assert "steps[3].options: Invalid value for '--solver'" in bad.stderr
