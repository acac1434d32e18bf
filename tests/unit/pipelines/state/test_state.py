"""A state without Spark: what it remembers of files, and a disk that refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from mangrove.errors import InputError, MangroveError
from mangrove.lake.files import LakeFile
from mangrove.lake.footers import Footer
from mangrove.model.telemetry import EVENTS
from mangrove.pipelines.reading.source import Source, lake
from mangrove.pipelines.state import state as module
from mangrove.pipelines.state.manifest import Manifest, TableState
from mangrove.pipelines.state.state import State, open_state


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


def test_a_place_that_cannot_hold_a_state_is_refused_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(InputError, match=r"^--state: .*notes/state.*: Not a directory") as refused:
        _open(tmp_path / "notes" / "state")
    assert "may write" in refused.value.hint
    denied = PermissionError(13, "Permission denied", str(tmp_path / "state"))

    def refuse(*_: object, **__: object) -> None:
        raise denied

    for step in ("touch", "open", "mkdir"):
        with monkeypatch.context() as patched:
            patched.setattr(Path, step, refuse)
            with pytest.raises(InputError, match=r"^--state: .*Permission denied"):
                _open(tmp_path / "state")


def test_a_state_that_cannot_be_written_any_more_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    source = lake(str(tmp_path / "lake"))
    words = r"^--state: .*state cannot be written: .*No space left on device"
    with pytest.raises(MangroveError, match=words), open_state(tmp_path / "state", "count", 1, source):
        full()
    monkeypatch.setattr(module, "write_manifest", full)
    with (
        pytest.raises(MangroveError, match=words) as told,
        open_state(tmp_path / "state", "count", 1, source) as held,
    ):
        held.publish()
    assert "was published before" in told.value.hint
    with pytest.raises(ConnectionResetError), open_state(tmp_path / "state", "count", 1, source):
        raise ConnectionResetError(104, "the cluster went away")


def _open(directory: Path) -> None:
    with open_state(directory, "count", 1, lake("/lake")):
        pass
