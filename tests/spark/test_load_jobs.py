"""`load` and `utility` on lakes with known overloads and topics that nobody wants."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from mangrove.errors import InputError
from mangrove.lake.writer import LakeWriter
from mangrove.model.telemetry import LOAD_SAMPLES, TOPIC_RATES
from mangrove.pipelines.jobs import load, utility
from mangrove.pipelines.reading.source import lake as lake_source

pytestmark = pytest.mark.timeout(900)

START = datetime(2026, 3, 2, tzinfo=UTC)


def load_row(when: datetime, broker: str, share: float, over: bool = False) -> dict[str, Any]:
    return {
        "ts": when,
        "domain": "north",
        "broker": broker,
        "role": "edge",
        "reachable": True,
        "state": "busy" if over else "low",
        "measured": "overload" if over else "low",
        "input": None,
        "output": share / 2,
        "matching": share,
        "headroom": 0.95 - share,
        "pending_bytes": 0,
        "overloaded": "matching" if over else "",
        "session": "s1" if over else "",
    }


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("loads") / "lake"
    for copy in range(2):  # every row twice, in different files
        writer = LakeWriter(path)
        for minute in range(0, 50 * 60, 15):
            when = START + timedelta(minutes=minute)
            hour = when.hour / 24
            writer.add(LOAD_SAMPLES, [load_row(when, "edge1", hour), load_row(when, "edge2", 0.4)])
            if minute < 26 * 60:
                writer.add(LOAD_SAMPLES, [load_row(when, "gone", 0.4)])
        when = START + timedelta(hours=50)
        for second in range(5):
            at = when + timedelta(seconds=second)
            writer.add(LOAD_SAMPLES, [load_row(at, "edge1", 0.98, True), load_row(at, "edge2", 0.4)])
        for second in range(30):
            at = START + timedelta(seconds=second)
            rows = []
            for topic, subscribers in (("wanted", 2), ("unwanted", 0), ("sometimes", second % 2)):
                row = {"ts": at, "domain": "north", "topic": topic, "filters": subscribers}
                counts = {"msgs_in": 10, "bytes_in": 100, "subscribers": 0, "msgs_out": 0, "bytes_out": 0}
                rows.append({**row, **counts, "broker": "head"})
                handed = {"msgs_out": 10 * subscribers, "bytes_out": 100 * subscribers}
                edge = {"msgs_in": 0, "bytes_in": 0, "subscribers": subscribers, **handed}
                rows.append({**row, **edge, "broker": "edge1"})
            # Another domain asks for it, so only the gateway sees it.
            rows.append({**rows[0], "topic": "elsewhere", "bytes_in": 0})
            if copy == 0 or second % 2:
                writer.add(TOPIC_RATES, rows)
        writer.flush()
    return path


def test_load_by_hour_and_what_would_have_moved(spark: SparkSession, lake: Path, tmp_path: Path) -> None:
    summary = load.run(spark, lake_source(str(lake)), tmp_path / "load")
    assert summary["brokers"] == 3
    assert summary["overload_s"] == 5
    assert summary["sessions"] == 1
    methods = {each["method"]: each["would_move"] for each in summary["methods"]}
    assert methods["drd"] == methods["drd-optimal"] == 1
    assert methods["peer"] == methods["peer-drd"] > 1
    hours = pq.read_table(tmp_path / "load" / "hours.parquet").to_pylist()
    noon = next(each for each in hours if each["broker"] == "edge1" and each["hour"] % 24 == 12)
    assert (noon["load"], noon["seconds"]) == (pytest.approx(0.5), 4)
    document = json.loads((tmp_path / "load" / "forecast.json").read_text())
    edge1, edge2, gone = document["brokers"]
    assert edge1["first_hour_s"] == START.timestamp() + 51 * 3600
    assert (gone["history_hours"], gone["load"], gone["worst_load"]) == (26, [], None)
    assert edge1["season_hours"] == 24
    assert edge1["load"][9:12] == pytest.approx([12 / 24, 13 / 24, 14 / 24])
    assert edge2["load"] == pytest.approx([0.4] * 24)


def test_what_nobody_asks_for_is_named(spark: SparkSession, lake: Path, tmp_path: Path) -> None:
    summary = utility.run(spark, lake_source(str(lake)), tmp_path / "utility", 0.95, 10)
    assert [row["topic"] for row in summary["unwanted"]] == ["unwanted"]
    topics = {row["topic"]: row for row in pq.read_table(tmp_path / "utility" / "topics.parquet").to_pylist()}
    assert {name: row["unwanted_messages"] for name, row in topics.items()} == {
        "wanted": 0,
        "unwanted": 300,
        "sometimes": 150,
        "elsewhere": 0,
    }
    assert summary["unwanted_share"] == pytest.approx(450 / 1200)
    document = json.loads((tmp_path / "utility" / "unwanted.json").read_text())
    assert document == {"share": 0.95, "domains": {"north": ["unwanted"]}}
    with pytest.raises(InputError, match="--share"):
        utility.run(spark, lake_source(str(lake)), tmp_path / "none", 1.5)
    assert not (tmp_path / "none").exists()
