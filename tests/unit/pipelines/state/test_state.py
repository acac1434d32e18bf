"""A state without Spark: what it remembers of files, and a disk that refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from mangrove.lake.files import LakeFile
from mangrove.lake.footers import Footer
from mangrove.model.telemetry import EVENTS
from mangrove.pipelines.reading.source import Source
from mangrove.pipelines.state import state as module
from mangrove.pipelines.state.manifest import Manifest, TableState
from mangrove.pipelines.state.state import State


def test_what_could_not_be_read_is_looked_at_anew_in_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = LakeFile("/lake/sound", "a", 3, Footer(3, fingerprint="x"))
    refused = LakeFile(
        "/lake/refused", "a", 0, Footer(None, "not a readable Parquet file (Permission denied)")
    )
    damaged = LakeFile("/lake/damaged", "a", 3, Footer(3), damage="damaged (0 of 3 rows can be read)")
    tables = {EVENTS.name: TableState(files=(sound, refused, damaged))}
    manifest = Manifest(job="count", version=1, lake="/lake", settings={}, tables=tables)
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(module, "Rows", lambda *_, **how: asked.append(how))
    State(tmp_path, Source("/lake"), manifest).rows(cast("Any", None), EVENTS)
    assert [list(how["known"]) for how in asked] == [[sound]]
