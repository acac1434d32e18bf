"""What a step was made from, wherever it is: what cannot be looked at has no fingerprint."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow.fs as pafs
import pytest

from mangrove.lake import files
from mangrove.pipelines.run import fingerprint
from mangrove.pipelines.run.document import Job, Pipeline, Step
from mangrove.pipelines.run.fingerprint import of_place, of_step

SLO = Job("slo", frozenset({"target"}))


def test_a_lake_in_an_object_store_is_opened_as_the_jobs_open_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def opened(url: str) -> tuple[pafs.FileSystem, str]:
        asked.append(url)
        return pafs.LocalFileSystem(), str(tmp_path)

    monkeypatch.setattr(files, "open_filesystem", opened)
    (tmp_path / "one").write_text("1")
    before = of_place("s3a://bucket/lake")
    assert before is not None
    assert of_place("s3a://bucket/lake") == before
    (tmp_path / "two").write_text("2")
    assert of_place("s3a://bucket/lake") != before
    assert asked == ["s3a://bucket/lake"] * 3


def test_what_cannot_be_looked_at_has_no_fingerprint_and_its_step_always_runs(tmp_path: Path) -> None:
    url = "wasbs://bucket@account/lake"
    assert of_place(url) is None
    step = Step("one", "slo", url)
    pipeline = Pipeline("night", tmp_path, tmp_path / "out", (step,))
    assert of_step(pipeline, step, SLO) is None
    (tmp_path / "out" / "one").mkdir(parents=True)
    (tmp_path / "out" / "one" / "_mangrove_job").write_text("slo")
    fingerprint.remember(pipeline, step, None)
    assert not fingerprint.is_current(pipeline, step, SLO)


def test_a_file_that_vanishes_while_it_is_looked_at_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one").write_text("1")
    alone = of_place(str(tmp_path))
    listed = Path.rglob

    def slow(self: Path, pattern: str) -> Iterator[Path]:
        yield from listed(self, pattern)
        (tmp_path / "two").unlink()

    (tmp_path / "two").write_text("merged into another meanwhile")
    monkeypatch.setattr(Path, "rglob", slow)
    assert of_place(str(tmp_path)) == alone


def test_a_file_is_its_bytes_and_a_refusal_is_no_fingerprint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = tmp_path / "groups.json"
    groups.write_text("{}")
    before = of_place(str(groups))
    groups.write_text("[]")
    assert before is not None
    assert of_place(str(groups)) != before

    def refuse(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert of_place(str(groups)) is None
