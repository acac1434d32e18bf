"""A state is equal to computing everything, is refused where it does not fit, and is never half there."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from mangrove.errors import InputError
from mangrove.lake.schemas import arrow_schema
from mangrove.lake.writer import write_whole
from mangrove.model.telemetry import EVENTS, TOPIC_RATES
from mangrove.pipelines.reading.rows import Rows
from mangrove.pipelines.reading.source import Source, lake
from mangrove.pipelines.state.state import open_state

pytestmark = pytest.mark.timeout(900)

DAY = datetime(2026, 3, 2, 12, tzinfo=UTC)
SCHEMA = "kind string, events bigint, date string, domain string"


def write(root: Path, name: str, kinds: Sequence[str | None], *, day: int = 0, domain: str = "a") -> Path:
    when = DAY + timedelta(days=day)
    folder = root / "events" / f"date={when.date()}" / f"domain={domain}"
    columns = {
        "ts": [when + timedelta(seconds=place) for place in range(len(kinds))],
        "domain": [domain] * len(kinds),
        "subject": ["s"] * len(kinds),
        "kind": kinds,
        "detail": [""] * len(kinds),
    }
    fields = [field.with_nullable(True) for field in arrow_schema(EVENTS)]
    write_whole(pa.table(columns, schema=pa.schema(fields)), folder / f"{name}.parquet")
    return folder / f"{name}.parquet"


def partial(rows: Rows) -> DataFrame:
    return rows.dated.groupBy("date", "domain", "kind").agg(f.count("*").alias("events"))


def refreshed(spark: SparkSession, root: Path, state: Path) -> tuple[set[str], dict[str, int]]:
    """Which parts were computed, and the sums afterwards."""
    with open_state(state, "count", 1, lake(str(root))) as held:
        parts = held.refresh(held.rows(spark, EVENTS), partial)
        held.publish()
        frame = held.frame(spark, EVENTS, SCHEMA)
        rows = frame.groupBy("kind").agg(f.sum("events").alias("events")).collect()
    return {f"{part.date[-2:]}{part.domain}" for part in parts}, {r["kind"]: r["events"] for r in rows}


def test_only_what_changed_is_read_and_the_sums_are_those_of_everything(
    spark: SparkSession, tmp_path: Path
) -> None:
    root, state = tmp_path / "lake", tmp_path / "state"
    write(root, "one", ["x", "y"])
    write(root, "one", ["x"], domain="b")
    write(root, "one", ["y"], day=1)
    assert refreshed(spark, root, state) == ({"02a", "02b", "03a"}, {"x": 2, "y": 2})
    assert refreshed(spark, root, state) == (set(), {"x": 2, "y": 2})
    # Late for a day of before, and a new day.
    write(root, "late", ["z", None])
    write(root, "one", ["x"], day=2)
    assert refreshed(spark, root, state) == ({"02a", "04a"}, {"x": 3, "y": 2, "z": 1})
    # Damaged inside: left out, in every run, until it can be read.
    bad = write(root, "bad", ["w"] * 2000, day=2)
    whole, told = bad.read_bytes(), bad.stat()
    data = bytearray(whole)
    data[30:120] = bytes(90)
    bad.write_bytes(data)
    os.utime(bad, ns=(told.st_atime_ns, told.st_mtime_ns))
    assert refreshed(spark, root, state)[1] == {"x": 3, "y": 2, "z": 1}
    assert refreshed(spark, root, state) == (set(), {"x": 3, "y": 2, "z": 1})
    bad.write_bytes(whole)
    os.utime(bad, ns=(told.st_atime_ns, told.st_mtime_ns))
    assert refreshed(spark, root, state) == ({"04a"}, {"w": 2000, "x": 3, "y": 2, "z": 1})
    bad.unlink()
    assert refreshed(spark, root, state) == ({"04a"}, {"x": 3, "y": 2, "z": 1})
    # A day goes away with its files.
    (root / "events" / "date=2026-03-03" / "domain=a" / "one.parquet").unlink()
    assert refreshed(spark, root, state) == (set(), {"x": 3, "y": 1, "z": 1})
    places = {path.parent for path in state.rglob("*.parquet")}
    assert len(places) == 3, "what is no longer needed is deleted"


def test_a_run_that_dies_leaves_the_old_state(spark: SparkSession, tmp_path: Path) -> None:
    root, state = tmp_path / "lake", tmp_path / "state"
    write(root, "one", ["x"])
    with open_state(state, "count", 1, lake(str(root))) as held:
        held.refresh(held.rows(spark, EVENTS), partial)
        # … and ends here, without publishing: the very first run, so there is no state yet.
    assert refreshed(spark, root, state) == ({"02a"}, {"x": 1})
    write(root, "two", ["x", "x"])
    with open_state(state, "count", 1, lake(str(root))) as held:
        held.refresh(held.rows(spark, EVENTS), partial)
    with open_state(state, "count", 1, lake(str(root))) as held:
        assert [row["events"] for row in held.frame(spark, EVENTS, SCHEMA).collect()] == [1]
    assert refreshed(spark, root, state) == ({"02a"}, {"x": 3})


def test_parts_that_are_gone_are_made_anew_and_damaged_ones_are_told(
    spark: SparkSession, tmp_path: Path
) -> None:
    root, state = tmp_path / "lake", tmp_path / "state"
    write(root, "one", ["x", "x"])
    write(root, "one", ["y"], day=1)
    write(root, "one", ["z"], day=2)
    refreshed(spark, root, state)
    # A directory, and the only file in another.
    shutil.rmtree(next(state.glob("events/date=2026-03-02/domain=a/run-1")))
    next(state.glob("events/date=2026-03-03/domain=a/run-1/*.parquet")).unlink()
    assert refreshed(spark, root, state) == ({"02a", "03a"}, {"x": 2, "y": 1, "z": 1})
    (damaged,) = state.glob("events/date=2026-03-04/domain=a/run-1/*.parquet")
    damaged.write_bytes(damaged.read_bytes()[:40])
    with pytest.raises(InputError, match=f"--state: {state} is damaged") as caught:
        refreshed(spark, root, state)
    assert "delete this one" in caught.value.hint


def test_states_that_do_not_fit_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    root, state = tmp_path / "lake", tmp_path / "state"
    write(root, "one", ["x"])
    refreshed(spark, root, state)
    here = lake(str(root))
    with (
        open_state(state, "count", 1, here),
        pytest.raises(InputError, match="another run uses"),
        open_state(state, "count", 1, here),
    ):
        pass
    for job, version, source, settings, reason in (
        ("slo", 1, here, {}, "is a state of `pipeline count`"),
        ("count", 2, here, {}, "another version"),
        ("count", 1, lake(str(tmp_path / "other")), {}, "is of the lake"),
        ("count", 1, here, {"window": "60 s"}, "was made with no settings, not window 60 s"),
        ("count", 1, Source(None, {"events": "db.events"}), {}, "needs a lake"),
    ):
        with pytest.raises(InputError, match=reason), open_state(state, job, version, source, settings):
            pass
    manifest = json.loads((state / "manifest.json").read_text())
    (state / "manifest.json").write_text(json.dumps(manifest | {"tables": 3}))
    with pytest.raises(InputError, match="is damaged"), open_state(state, "count", 1, here):
        pass
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("keep me")
    with pytest.raises(InputError, match="holds files"), open_state(tmp_path / "mine", "count", 1, here):
        pass
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["letter.txt"]


def test_files_outside_days_and_domains_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    path = write(tmp_path / "lake", "one", ["x"])
    path.rename(tmp_path / "lake" / "events" / "flat.parquet")
    with (
        open_state(tmp_path / "state", "count", 1, lake(str(tmp_path / "lake"))) as held,
        pytest.raises(InputError, match=r"flat\.parquet is in no directory"),
    ):
        held.refresh(held.rows(spark, EVENTS), partial)
    assert TOPIC_RATES.name not in held.manifest.tables
