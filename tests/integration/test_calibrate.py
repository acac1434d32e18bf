"""Calibration against a real broker."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq


def test_calibrate_measures_a_real_broker(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mangrove.cli.main", "calibrate", "--lake", str(tmp_path / "lake")]
    command += ["--subscribers", "1,8", "--filters", "0,50", "--sizes", "64", "--messages", "5000", "--json"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)
    assert run.returncode == 0, run.stderr
    runs = json.loads(run.stdout)["runs"]
    assert {(r["replication"], r["filters"]) for r in runs} == {(1, 0), (1, 50), (8, 0), (8, 50)}
    assert all(r["processing_time_s"] > 0 and r["messages"] == 5000 for r in runs)
    (file,) = (tmp_path / "lake" / "calibration_runs").rglob("*.parquet")
    assert pq.read_metadata(file).num_rows == 4
