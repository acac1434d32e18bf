"""What a footer tells of the time of its rows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from mangrove.lake.footers import Footer, read_footer
from mangrove.lake.schemas import arrow_schema
from mangrove.model.telemetry import TOPIC_RATES

START = datetime(2026, 3, 2, 10, tzinfo=UTC)
START_S = int(START.timestamp())


@pytest.fixture
def far_from_utc() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "America/New_York")
        time.tzset()
        yield
    time.tzset()


def footer_of(
    path: Path, seconds: list[int], unit: str = "us", zone: str | None = "UTC", **how: object
) -> Footer:
    """Of a file with a row for each of these seconds after the start."""
    schema = arrow_schema(TOPIC_RATES)
    values: dict[str, list[object]] = {name: [0] * len(seconds) for name in schema.names}
    values |= {name: ["x"] * len(seconds) for name in ("broker", "topic", "domain")}
    values["ts"] = [START + timedelta(seconds=each) for each in seconds]
    rows = pa.Table.from_pydict(values, schema=schema)
    rows = rows.set_column(0, "ts", rows["ts"].cast(pa.timestamp(unit, tz=zone)))
    pq.write_table(rows, path, row_group_size=2, **how)
    return read_footer(pafs.LocalFileSystem(), str(path), TOPIC_RATES, has_domain=True)


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_the_seconds_of_all_groups(tmp_path: Path, unit: str) -> None:
    found = footer_of(tmp_path / "a.parquet", [7, 3, 900, 5, 4], unit)
    assert not found.problem
    assert (found.first_s, found.last_s) == (START_S + 3, START_S + 900)


@pytest.mark.usefixtures("far_from_utc")
@pytest.mark.parametrize("zone", ["UTC", None])
@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_the_zone_of_the_machine_does_not_matter(tmp_path: Path, unit: str, zone: str | None) -> None:
    found = footer_of(tmp_path / "a.parquet", [7, 900], unit, zone)
    assert not found.problem
    assert (found.first_s, found.last_s) == (START_S + 7, START_S + 900)


def test_a_file_may_not_tell(tmp_path: Path) -> None:
    silent = footer_of(tmp_path / "a.parquet", [7, 3], write_statistics=False)
    empty = footer_of(tmp_path / "b.parquet", [])
    old = footer_of(tmp_path / "c.parquet", [7, 3], use_deprecated_int96_timestamps=True)
    for found in (silent, empty, old):
        assert (found.first_s, found.last_s) == (None, None)
        assert not found.problem


def test_times_that_no_calendar_has_are_a_reason(tmp_path: Path) -> None:
    schema = arrow_schema(TOPIC_RATES)
    values: dict[str, list[object]] = {name: [0] for name in schema.names}
    values |= {name: ["x"] for name in ("broker", "topic", "domain")}
    # Nanoseconds, where microseconds were meant.
    values["ts"] = [START_S * 10**9]
    pq.write_table(pa.Table.from_pydict(values, schema=schema), tmp_path / "a.parquet")
    found = read_footer(pafs.LocalFileSystem(), str(tmp_path / "a.parquet"), TOPIC_RATES, has_domain=True)
    assert found.rows == 1
    assert found.problem.startswith("bounds of its values are no values (")
