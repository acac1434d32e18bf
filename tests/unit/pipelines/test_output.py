"""An output directory that cannot be written: refused before anything is computed, and in words."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mangrove.errors import InputError, MangroveError
from mangrove.pipelines.jobs import calibration, cases
from mangrove.pipelines.output import check_output, output_directory


def test_a_file_as_parent_is_refused_before_anything_is_computed(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    for place in ("notes/out", "notes/deep/out"):
        with pytest.raises(
            InputError, match=r"^--output: .*out cannot be made: .*notes is a file"
        ) as refused:
            check_output(tmp_path / place, "job")
        assert refused.value.hint == "give a directory"
    check_output(tmp_path / "new" / "deep" / "out", "job")
    assert not (tmp_path / "new").exists()


def test_so_is_a_directory_of_somebody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = tmp_path / "there"
    there.mkdir()
    monkeypatch.setattr(os, "access", lambda place, _: place != tmp_path)
    with pytest.raises(InputError, match=f"nothing may be written in {tmp_path}") as refused:
        check_output(there, "job")
    assert "may write" in refused.value.hint
    check_output(there, "job", in_place=True)
    check_output(there / "out", "job")
    monkeypatch.setattr(Path, "iterdir", _denied)
    with pytest.raises(InputError, match=f"{there}: Permission denied"):
        check_output(there, "job")


def _denied(path: Path, *_: object, **__: object) -> None:
    raise PermissionError(13, "Permission denied", str(path))


def test_what_the_system_refuses_at_the_start_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "mkdir", _denied)
    words = r"^--output: .*out cannot be made: .*new: Permission denied"
    with pytest.raises(InputError, match=words), output_directory(tmp_path / "new" / "out", "job"):
        pytest.fail("begun")


@pytest.mark.parametrize("named", [False, True])
def test_a_disk_that_fills_is_told_with_the_place_and_nothing_is_replaced(
    tmp_path: Path, named: bool
) -> None:
    out = tmp_path / "out"
    with output_directory(out, "job") as directory:
        (directory / "answer").write_text("old")
    words = f"^--output: {out} cannot be written: No space left on device"
    with pytest.raises(MangroveError, match=words) as told, output_directory(out, "job") as directory:
        raise OSError(28, "No space left on device", *([str(directory / "answer")] if named else []))
    assert "there is room" in told.value.hint
    assert (out / "answer").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    "error",
    [ConnectionRefusedError(111, "refused"), FileNotFoundError(2, "No such file", "/elsewhere/model.json")],
)
def test_what_is_of_no_disk_or_of_another_place_stays_what_it_is(tmp_path: Path, error: OSError) -> None:
    with pytest.raises(type(error)), output_directory(tmp_path / "out", "job"):
        raise error


@pytest.mark.parametrize("run", [calibration.run, cases.run])
def test_jobs_look_at_the_place_before_they_read(tmp_path: Path, run: Callable[..., object]) -> None:
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(InputError, match="notes is a file"):
        run(None, tmp_path / "lake", tmp_path / "notes" / "out")
