"""Files of a lake: which ones are used, and why the others are not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.kit.rates import place, shard

from mangrove.lake.files import LakeFile, list_table, sorted_out
from mangrove.lake.footers import Footer
from mangrove.model.telemetry import TOPIC_RATES


@pytest.mark.parametrize(
    "name",
    [
        "unknown",
        "2026-3-2",
        "20260302",
        "2026-02-30",
        "2026-W10-1",
        "__HIVE_DEFAULT_PARTITION__",
        "2026-03-02x",
    ],
)
def test_a_directory_of_no_day_is_told_and_the_rest_is_read(tmp_path: Path, name: str) -> None:
    good = place(tmp_path, "one", shard([(1772442000, "b", "x", 1)]))
    odd = tmp_path / TOPIC_RATES.name / f"date={name}" / "domain=a" / "one.parquet"
    odd.parent.mkdir(parents=True)
    odd.write_bytes(place(tmp_path, "other", shard([(1772442001, "b", "x", 1)])).read_bytes())
    good.with_name("other.parquet").unlink()
    files = [
        LakeFile(str(path), "a", 1, Footer(1, fingerprint=path.parent.parent.name)) for path in (good, odd)
    ]
    listing = sorted_out(str(tmp_path), TOPIC_RATES, files, lambda _: {})
    assert [file.path for file in listing.files] == [str(good)]
    assert [(each.path, each.rows) for each in listing.skipped] == [(str(odd), 1)]
    assert listing.skipped[0].reason.startswith(f"date={name} is no day as directories are named")
    assert [file.path for file in list_table(str(tmp_path), TOPIC_RATES).files] == [str(good)]


def test_where_the_lake_is_does_not_matter() -> None:
    root = "/backups/date=yesterday/lake"
    file = LakeFile(f"{root}/{TOPIC_RATES.name}/date=2026-03-02/domain=a/one.parquet", "a", 1, Footer(1))
    flat = replace(file, path=f"{root}/{TOPIC_RATES.name}/one.parquet", footer=Footer(1, fingerprint="x"))
    assert len(sorted_out(root, TOPIC_RATES, [file, flat], lambda _: {}).files) == 2
