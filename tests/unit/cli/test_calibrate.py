"""What was measured is not lost to a lake that takes nothing."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.kit.command import mangrove

from mangrove.cli.pipeline import calibrate
from mangrove.lake.writer import LakeWriter

RUN = {"ts": datetime(2026, 3, 2, tzinfo=UTC), "domain": "calibration", "broker_type": "fast"}
RUN |= {"replication": 4.0, "filters": 0.0, "message_bytes": 64, "messages": 1000, "seconds": 0.01}
RUN |= {"processing_time_s": 0.0000123, "cpu_time_s": 0.00001}


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many runs each measurement was asked for; none is made."""
    asked: list[int] = []

    async def measure(grid: list[Any], *_: Any) -> list[dict[str, Any]]:
        asked.append(len(grid))
        return [RUN]

    monkeypatch.setattr(calibrate, "measure_grid", measure)
    return asked


@pytest.mark.parametrize("lake", ["file", "file/below", "lake"])
def test_a_lake_that_takes_nothing_is_refused_before_anything_is_measured(
    lake: str, tmp_path: Path, measured: list[int]
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "calibration_runs").write_text("")
    run = mangrove("calibrate", "--lake", tmp_path / lake)
    assert (run.returncode, run.stdout) == (2, "")
    assert f"error: --lake: {tmp_path / lake}" in run.stderr
    assert "is a file" in run.stderr
    assert measured == []


def test_runs_that_cannot_be_written_are_shown(
    tmp_path: Path, measured: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: LakeWriter) -> list[Path]:
        raise OSError(28, "No space left on device", str(tmp_path / "lake" / "part"))

    monkeypatch.setattr(LakeWriter, "flush", full)
    table = mangrove("calibrate", "--lake", tmp_path / "lake")
    assert table.returncode == 1
    assert "12.30" in table.stdout
    assert "No space left on device" in table.stderr
    assert "next:" not in table.stderr
    told = mangrove("calibrate", "--lake", tmp_path / "lake", "--json")
    assert told.returncode == 1
    assert [run["processing_time_s"] for run in json.loads(told.stdout)["runs"]] == [0.0000123]
    assert measured == [18, 18]


def test_runs_are_written_and_what_comes_next_is_said(tmp_path: Path, measured: list[int]) -> None:
    run = mangrove("calibrate", "--lake", tmp_path / "lake", "--subscribers", "1", "--filters", "0")
    assert run.returncode == 0, run.stderr
    assert "next: mangrove pipeline calibrate" in run.stderr
    assert len(list((tmp_path / "lake" / "calibration_runs").rglob("*.parquet"))) == 1
    assert measured == [2]
