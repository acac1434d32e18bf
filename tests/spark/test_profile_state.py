"""`profile` in parts: the same bytes at any parallelism, from a state day by day, and from a stream."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.kit.rates import place, shard

from mangrove.errors import InputError
from mangrove.lake.files import Listing
from mangrove.pipelines.jobs.profile import Brokers, Profile, ProfileSettings, follow, profile, write_profile
from mangrove.pipelines.rates import cube
from mangrove.pipelines.rates.facts import KEPT
from mangrove.pipelines.rates.peaks import parse_peak
from mangrove.pipelines.reading.listing import list_files
from mangrove.pipelines.reading.source import lake as lake_source
from mangrove.pipelines.state.following import NOTE
from mangrove.pipelines.synthetic.rates import SyntheticRates, generate

pytestmark = pytest.mark.timeout(900)

DAY_S = 86400
TWO = Brokers(("b1", "b2"), (4000.0, 4000.0))


def written(found: Profile, place: Path) -> dict[str, bytes]:
    """All that a profile leaves behind."""
    write_profile(found, TWO, place)
    return {path.name: path.read_bytes() for path in place.iterdir()}


@pytest.fixture
def partitions(spark: SparkSession) -> Iterator[None]:
    """Leaves the number of partitions to the test."""
    names = ("spark.sql.adaptive.coalescePartitions.enabled", "spark.sql.shuffle.partitions")
    before = {name: spark.conf.get(name) for name in names}
    spark.conf.set(names[0], "false")
    yield
    for name, value in before.items():
        if value is not None:
            spark.conf.set(name, value)


@pytest.mark.usefixtures("partitions")
def test_the_same_bytes_with_any_number_of_partitions(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One topic and one hour have nearly all of the load, some rows are repeated, some differ.

    Spark's scan and the workers' own reading give the same, too.
    """
    rng = np.random.default_rng(6)
    start = int(datetime(2026, 3, 2, 22, tzinfo=UTC).timestamp())
    for hour, seconds in ((0, 400), (1, 60), (2, 40)):
        rows = [
            (
                start + hour * 3600 + s,
                f"b{t % 2}",
                f"t{t}",
                int(rng.poisson(9)) + (3_000_000 if t == 3 else 0),
            )
            for s in range(seconds)
            for t in range(6)
        ]
        place(tmp_path, f"hour{hour}", shard(rows), "ab"[hour % 2])
        place(
            tmp_path,
            f"late{hour}",
            shard(rows[5::7] + [(*row[:3], row[3] + 1) for row in rows[::9]]),
            "ab"[hour % 2],
        )
    results = []
    for number in (1, 3, 16, 64):
        spark.conf.set("spark.sql.shuffle.partitions", str(number))
        found = profile(spark, str(tmp_path), ProfileSettings(peak=parse_peak("all"), window_s=7))
        results.append(written(found, tmp_path / f"out{number}"))
    monkeypatch.setattr(cube, "readable", lambda _: False)
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    scanned = profile(spark, str(tmp_path), ProfileSettings(peak=parse_peak("all"), window_s=7))
    results.append(written(scanned, tmp_path / "scanned"))
    assert found.repeated > 400
    assert all(result == results[0] for result in results)


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three days around midnight, of two domains, with every kind of fault."""
    lake = tmp_path_factory.mktemp("days") / "lake"
    generate(
        SyntheticRates(
            topics=3,
            seconds=DAY_S + 1200,
            start=datetime(2026, 3, 1, 23, 50, tzinfo=UTC),
            file_s=3 * 3600,
            domains=("north", "south"),
            late_rows=50,
            reset_rows=5,
            damaged_files=1,
            seed=4,
        ),
        lake,
    )
    return lake


def test_a_state_day_by_day_gives_the_bytes_of_a_full_run(
    spark: SparkSession, days: Path, tmp_path: Path
) -> None:
    lake, state = tmp_path / "lake", tmp_path / "state"
    shutil.copytree(days, lake)
    table = lake / "topic_rates"
    later = tmp_path / "later"
    shutil.move(str(table / "date=2026-03-03"), later)
    profile(spark, str(lake), state=state)
    shutil.move(str(later), table / "date=2026-03-03")
    some_file = min((table / "date=2026-03-02" / "domain=north").glob("rates-*"))
    pq.write_table(
        pq.read_table(some_file, partitioning=None).slice(10, 99), some_file.with_name("late.parquet")
    )
    full = written(profile(spark, str(lake)), tmp_path / "full")
    notes: list[str] = []
    kept = written(profile(spark, str(lake), progress=notes.append, state=state), tmp_path / "kept")
    assert kept == full
    # Both domains of the new day, and the one that got another file.
    assert any(note.startswith("3 days of domains were new") for note in notes), notes
    some = ProfileSettings(peak=parse_peak("08:00-12:00"), window_s=60, days=2, domains=frozenset({"south"}))
    again = written(profile(spark, str(lake), some, notes.append, state=state), tmp_path / "kept")
    assert again == written(profile(spark, str(lake), some), tmp_path / "full")
    assert any(note.startswith("0 days of domains were new") for note in notes), notes
    # Sums that are kept are used, and a damaged file of them is made anew.
    files = {path: path.stat().st_mtime_ns for path in (state / "sums").glob("*.npz")}
    broken = max(files, key=lambda path: files[path])
    broken.write_bytes(b"")
    again = written(profile(spark, str(lake), some, state=state), tmp_path / "kept")
    assert again == {path.name: path.read_bytes() for path in (tmp_path / "full").iterdir()}
    assert broken.stat().st_size > 0
    assert set((state / "sums").glob("*.npz")) == set(files)
    # So it is with facts, also if they are asked for by domain.
    south = ProfileSettings(domains=frozenset({"south"}))
    facts = {path: path.stat().st_size for path in state.glob(f"topic_rates/*/*/*/{KEPT}")}
    for path in facts:
        path.write_bytes(b"ARROW1")
    kept = written(profile(spark, str(lake), south, state=state), tmp_path / "kept")
    assert kept == written(profile(spark, str(lake), south), tmp_path / "full")
    assert written(profile(spark, str(lake), state=state), tmp_path / "kept") == full
    assert {path: path.stat().st_size for path in facts} == facts


def test_a_day_ends_before_the_midnight_it_is_asked_for_until(spark: SparkSession, tmp_path: Path) -> None:
    """Rows that are in the next day's directory are of no day before, whether there is a state or not.

    Nor are those of the day that are of the next one by their time.
    """
    lake, midnight = tmp_path / "lake", int(datetime(2026, 3, 3, tzinfo=UTC).timestamp())
    rng = np.random.default_rng(7)

    def rows(first_s: int) -> pa.Table:
        return shard([(first_s + s, "b", "x", int(rng.poisson(9))) for s in range(100)])

    place(lake, "day", rows(midnight - 300))
    place(lake, "late", rows(midnight + 100))
    strayed = place(lake, "strayed", rows(midnight - 50))
    next_day = lake / "topic_rates" / "date=2026-03-03" / "domain=a"
    next_day.mkdir(parents=True)
    shutil.move(strayed, next_day)
    settings = ProfileSettings(peak=parse_peak("all"), until_s=midnight)
    notes: list[str] = []
    full = profile(spark, str(lake), settings, notes.append)
    assert notes[0].startswith("2 files, 200 rows;")
    assert full.rows == 100
    kept = profile(spark, str(lake), settings, state=tmp_path / "state")
    assert written(kept, tmp_path / "kept") == written(full, tmp_path / "full")
    assert profile(spark, str(lake), ProfileSettings(peak=parse_peak("all"))).rows == 300


def test_files_are_listed_once_unless_days_are_counted_back(
    spark: SparkSession, days: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = []

    def counted(*args: Any, **bounds: Any) -> Listing:
        listed.append(bounds["known"])
        return list_files(*args, **bounds)

    monkeypatch.setattr("mangrove.pipelines.reading.rows.list_files", counted)
    midnight = int(datetime(2026, 3, 2, tzinfo=UTC).timestamp())
    hour = ProfileSettings(peak=parse_peak("08:00-09:00"), window_s=60)
    asked = profile(spark, str(days), replace(hour, since_s=midnight, until_s=midnight + DAY_S))
    assert listed == [()]
    last = profile(spark, str(days), replace(hour, days=1, peak=parse_peak("all")))
    assert len(listed) == 3
    assert listed[2], "footers are read once"
    assert asked.data_until == midnight + DAY_S
    assert last.rows + asked.rows < profile(spark, str(days), hour).rows


def test_a_stream_keeps_the_state_and_goes_on_after_a_crash(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, state = tmp_path / "lake", tmp_path / "state"
    generate(SyntheticRates(topics=4, seconds=1200, file_s=300, seed=8, daily=False), lake)
    source = lake_source(str(lake))

    def crash(*_: object) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as patched:
        patched.setattr("mangrove.pipelines.jobs.profile.refresh", crash)
        with pytest.raises(Exception, match="killed"):
            follow(spark, source, state)
    assert not (state / "manifest.json").exists()
    notes: list[str] = []
    for _ in range(2):
        follow(spark, source, state, progress=notes.append)
    assert notes == ["batch 0 is in the result"]
    full = written(profile(spark, str(lake)), tmp_path / "full")
    assert written(profile(spark, str(lake), state=state), tmp_path / "kept") == full
    (state / NOTE).write_text('["elsewhere"]')
    with pytest.raises(InputError, match="checkpoint"):
        follow(spark, source, state)
