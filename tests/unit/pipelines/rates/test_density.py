"""How dense rows are, by what footers tell: it decides how long blocks are, and so what a task holds."""

from __future__ import annotations

from mangrove.lake.files import LakeFile
from mangrove.lake.footers import Footer
from mangrove.pipelines.rates.cube import density


def file(domain: str, rows: int, first_s: int | None, last_s: int | None) -> LakeFile:
    path = f"/lake/topic_rates/date=2026-03-02/domain={domain}/{first_s}-{rows}.parquet"
    return LakeFile(path, domain, rows, Footer(rows, first_s=first_s, last_s=last_s))


def test_files_of_a_day_and_domain_count_together() -> None:
    # Two brokers write files of their own; another domain is less busy.
    files = [file("north", 4000, 0, 99), file("north", 6000, 0, 99), file("south", 300, 0, 99)]
    assert density(files) == 100.0


def test_a_stray_row_hides_no_dense_file() -> None:
    assert density([file("north", 8000, 5000, 5099), file("north", 1, 0, 0)]) == 80.0


def test_without_times_somebody_has_to_look() -> None:
    assert density([file("north", 10, 0, 9), file("north", 10, None, None)]) is None
    assert density([]) is None
    # Files without rows have no times, and do not matter.
    assert density([file("north", 0, None, None)]) is None
    assert density([file("north", 0, None, None), file("north", 10, 0, 9)]) == 1.0
