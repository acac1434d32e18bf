"""Listing without Spark: what is known of files from before, and what is found of the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest

from mangrove.lake.files import LakeFile, Listing
from mangrove.lake.footers import Footer
from mangrove.model.telemetry import DELIVERIES, Table
from mangrove.pipelines.reading import listing as module
from mangrove.pipelines.reading.listing import UNCHECKED, list_files, placing, table_path

LAKE = "hdfs://nn/lake"

Row = tuple[Any, ...]


@dataclass
class Frame:
    """Rows in place of a frame."""

    rows: Sequence[Any]

    def where(self, _: object) -> Frame:
        return self

    def collect(self) -> Sequence[Any]:
        return self.rows


class Session:
    """Makes such frames."""

    def createDataFrame(self, rows: Sequence[Row], _: str) -> Frame:  # noqa: N802
        return Frame(rows)


class Workers:
    """Look at files: each has the footer that was put down for it, or cannot be checked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.footers: dict[str, Footer] = {}
        self.there: list[Row] = []
        self.looked_at: list[str] = []

        def listed(*_: object) -> Frame:
            return Frame(self.there)

        def look(frame: Frame, _: str, __: Table) -> Frame:
            self.looked_at = [row[0] for row in frame.rows]
            unchecked = Footer(None, UNCHECKED)
            names = ("path", "uri", "size_bytes", "modified_ms")
            footers = [asdict(self.footers.get(row[0], unchecked)) for row in frame.rows]
            return Frame(
                [
                    dict(zip(names, row, strict=True)) | told
                    for row, told in zip(frame.rows, footers, strict=True)
                ]
            )

        def digests(_: object, __: str, ___: Table, paths: Sequence[str]) -> Mapping[str, bytes]:
            pytest.fail(f"nobody can read {paths}")

        monkeypatch.setattr(module, "_listed", listed)
        monkeypatch.setattr(module, "_in_question", lambda *_: None)
        monkeypatch.setattr(module, "_looked_at", look)
        monkeypatch.setattr(module, "_digests", digests)

    def put(self, name: str, footer: Footer | None = None, date: str = "2026-03-02") -> str:
        path = f"{LAKE}/{DELIVERIES.name}/date={date}/domain=a/{name}.parquet"
        self.there.append((path, path, 100, 1000))
        if footer is not None:
            self.footers[path] = footer
        return path

    def list(self, known: Sequence[LakeFile] = ()) -> Listing:
        return list_files(cast("Any", Session()), LAKE, DELIVERIES, known=known)


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Workers:
    return Workers(monkeypatch)


def test_where_footers_cannot_be_checked_no_file_is_lost_from_run_to_run(workers: Workers) -> None:
    paths = [workers.put("one"), workers.put("two")]
    first = workers.list()
    assert [file.path for file in first.files] == paths
    counted = tuple(replace(file, incomplete=3) for file in first.found)
    again = workers.list(counted)
    assert [file.path for file in again.files] == paths
    assert [file.incomplete for file in again.files] == [3, 3], "what took a read is not asked again"
    paths.append(workers.put("three"))
    for known in (counted, again.found):
        found = workers.list(known)
        assert [file.path for file in found.files] == paths
        assert all(file.footer == Footer(None, holes=True) for file in found.files)
        assert [each.reason for each in found.skipped] == [UNCHECKED]


def test_a_directory_of_no_day_is_told_where_footers_cannot_be_checked_too(workers: Workers) -> None:
    good, odd = workers.put("one"), workers.put("one", date="unknown")
    found = workers.list()
    assert [file.path for file in found.files] == [good]
    assert [each.path for each in found.skipped] == [f"{LAKE}/{DELIVERIES.name}", odd]
    assert len(found.found) == 2


def test_footers_that_were_checked_once_do_not_count_beside_some_that_cannot_be(workers: Workers) -> None:
    old = workers.put("merged", Footer(5, fingerprint="x", replaces=("two.parquet",)))
    known = workers.list().found
    new = workers.put("two")
    found = workers.list(known)
    assert [file.path for file in found.files] == [old, new]
    assert all(file.footer == Footer(None, holes=True) for file in found.files)


def test_what_can_be_checked_now_is(workers: Workers) -> None:
    path = workers.put("one")
    known = workers.list().found
    workers.footers[path] = Footer(5, fingerprint="x")
    found = workers.list(known)
    assert found.files[0].footer.rows == 5
    assert workers.list(found.found).files == found.files
    assert workers.looked_at == []


@pytest.mark.parametrize("name", ["plain", "with#2", "with?b", "with%20c", "a b"])
def test_a_path_of_this_machine_is_no_url(name: str, tmp_path: Path) -> None:
    lake, inner = str(tmp_path / name), "deliveries/date=2026-03-02/domain=a/x.parquet"
    _, found = placing(lake, DELIVERIES)(f"file:{lake}/{inner}")
    assert found == f"{lake}/{inner}"


def test_of_a_url_the_path_counts() -> None:
    assert table_path("s3a://bucket/some/lake", DELIVERIES) == "/some/lake/deliveries/"
    assert table_path("/some/lake?x#y", DELIVERIES) == "/some/lake?x#y/deliveries/"
