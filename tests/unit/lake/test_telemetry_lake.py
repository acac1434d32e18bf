"""The lake's writer and the pure parts of the pipelines: nothing here needs Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mangrove.errors import InputError, InvalidDocumentError
from mangrove.lake.files import list_table
from mangrove.lake.writer import LakeWriter
from mangrove.model.telemetry import EVENTS, LATENCY_BINS, LATENCY_BOUNDS_MS, REPLACES_KEY, latency_bin
from mangrove.pipelines.rates.blocks import BlockSummer, Periods, narrow, pack, wide
from mangrove.pipelines.rates.items import read_groups
from mangrove.pipelines.rates.peaks import MINUTES, WHOLE_DAY, find_peaks, parse_peak, periods
from mangrove.pipelines.rates.rates_file import COUNTS, RatesBatch

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def event(number: int, ts: datetime = NOON) -> dict[str, object]:
    when = ts + timedelta(seconds=number)
    return {"ts": when, "domain": "a", "subject": "b", "kind": "broker_down", "detail": str(number)}


def details(lake: Path) -> list[int]:
    listing = list_table(str(lake), EVENTS)
    read = [
        pq.read_table(file.path, partitioning=None).column("detail").to_pylist() for file in listing.files
    ]
    return sorted(int(text) for texts in read for text in texts)


def test_small_files_are_merged_and_no_row_is_lost(tmp_path: Path) -> None:
    writer = LakeWriter(tmp_path, parts_before_merge=3)
    for number in range(7):
        writer.add(EVENTS, [event(number)])
        writer.flush()
    assert details(tmp_path) == list(range(7))
    assert len(list(tmp_path.rglob("*.parquet"))) == 3
    writer.close()
    assert details(tmp_path) == list(range(7))


def test_rows_go_to_the_date_of_their_time(tmp_path: Path) -> None:
    writer = LakeWriter(tmp_path)
    writer.add(EVENTS, [event(0), event(13 * 3600)])
    writer.flush()
    assert sorted(p.name for p in (tmp_path / "events").iterdir()) == ["date=2026-03-02", "date=2026-03-03"]


def test_a_writer_that_died_between_merging_and_deleting_counts_no_row_twice(tmp_path: Path) -> None:
    writer = LakeWriter(tmp_path)
    for number in range(3):
        writer.add(EVENTS, [event(number)])
        writer.flush()
    parts = {path: path.read_bytes() for path in tmp_path.rglob("part-*.parquet")}
    writer.close()
    for path, data in parts.items():
        path.write_bytes(data)
    assert details(tmp_path) == [0, 1, 2]
    skipped = list_table(str(tmp_path), EVENTS).skipped
    assert [each.reason for each in skipped] == ["its rows are in a merged file"] * 3
    LakeWriter(tmp_path)
    assert not list(tmp_path.rglob("part-*.parquet"))
    (merged,) = tmp_path.rglob("merged-*.parquet")
    assert len(pq.read_metadata(merged).metadata[REPLACES_KEY.encode()].split(b"\n")) == 3


def test_half_written_files_are_skipped_and_reported(tmp_path: Path) -> None:
    writer = LakeWriter(tmp_path)
    writer.add(EVENTS, [event(0)])
    (path,) = writer.flush()
    (path.parent / ".part-9.parquet.tmp").write_bytes(b"PAR1 half")
    broken = path.with_name("part-broken.parquet")
    broken.write_bytes(path.read_bytes()[:-20])
    listing = list_table(str(tmp_path), EVENTS)
    assert [file.path for file in listing.files] == [str(path)]
    assert [each.path for each in listing.skipped] == [str(broken)]
    LakeWriter(tmp_path)
    assert not list(tmp_path.rglob(".*.tmp"))


def test_a_disk_that_refuses_keeps_the_rows_for_later(tmp_path: Path) -> None:
    (tmp_path / "events").write_text("a file where the table's directory should be")
    writer = LakeWriter(tmp_path)
    writer.add(EVENTS, [event(0)])
    with pytest.raises(OSError, match="events"):
        writer.flush()
    (tmp_path / "events").unlink()
    writer.add(EVENTS, [event(1)])
    writer.flush()
    assert details(tmp_path) == [0, 1]


@given(st.floats(-10, 1e7, allow_nan=False))
def test_latency_bins_hold_what_their_bounds_say(latency: float) -> None:
    place = latency_bin(latency)
    assert 0 <= place < LATENCY_BINS
    assert place == LATENCY_BINS - 1 or latency <= LATENCY_BOUNDS_MS[place]
    assert place == 0 or latency > LATENCY_BOUNDS_MS[place - 1]


@given(st.lists(st.integers(0, 2**40), min_size=1))
def test_packing_loses_nothing(values: list[int]) -> None:
    array = np.array(values, dtype=np.int64)
    assert wide(narrow(array), len(values)).tolist() == values


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.integers(0, 59), st.integers(0, 2), st.integers(0, 10**6)), min_size=1, max_size=80
    ),
    st.sampled_from([1, 5, 10]),
    st.sampled_from([10, 20, 60]),
    st.integers(1, 3),
)
def test_blocks_add_up_to_the_plain_gram_matrix(
    rows: list[tuple[int, int, int]], window_s: int, block_s: int, cuts: int
) -> None:
    """However rows are cut into batches and blocks, and repeated, the sums are those of the dense matrix."""
    first: dict[tuple[int, int], int] = {}
    for second, stream, count in rows:
        first.setdefault((second, stream), count)
    dense = np.zeros((60, 2))
    topic_of_stream = np.array([0, 1, 1])
    for (second, stream), count in first.items():
        dense[second, topic_of_stream[stream]] += count
    shift = np.array([7.0, 3.0])
    windows = dense.reshape(60 // window_s, window_s, 2).sum(axis=1) - shift
    when = Periods((0,), (60,), window_s)
    pieces: dict[int, list[dict[str, object]]] = {}
    for part in np.array_split(np.array(rows, dtype=np.int64), cuts):
        if len(part):
            counts = dict.fromkeys(COUNTS, part[:, 2])
            batch = RatesBatch(part[:, 0] * 1_000_000, part[:, 1], counts)
            for piece in pack(batch, np.arange(3), 3, block_s, when):
                number = piece["block"]
                assert isinstance(number, int)
                pieces.setdefault(number, []).append(piece)
    summer = BlockSummer(topic_of_stream, shift, block_s, when)
    for block in sorted(pieces):
        summer.add(block, pieces[block])
    absent = when.windows - summer.sums.windows
    gram = summer.sums.gram + absent * np.outer(shift, shift)
    np.testing.assert_allclose(gram, windows.T @ windows, rtol=1e-12)
    assert summer.sums.repeated == len(rows) - len(first)


def test_peaks_are_found_where_they_are() -> None:
    minute = np.arange(29_000_000, 29_000_000 + 3 * MINUTES)
    load = np.full(len(minute), 100.0)
    load[(minute % MINUTES >= 600) & (minute % MINUTES < 660)] = 250.0
    noisy = load + np.random.default_rng(1).normal(0, 5, len(load))
    assert find_peaks(minute, noisy) == ((600, 660),)
    assert find_peaks(minute, np.full(len(minute), 7.0)) == WHOLE_DAY
    assert find_peaks(minute[:60], load[:60]) == WHOLE_DAY
    assert find_peaks(minute[:0], load[:0]) == WHOLE_DAY


def test_periods_are_whole_windows_within_the_history() -> None:
    day = 20_000 * 86400
    when = periods({"a": ((60, 120),), "b": ((110, 130),)}, day + 3605, day + 86400 + 4000, 10)
    assert when.starts_s == (day + 3610, day + 86400 + 3600)
    assert when.ends_s == (day + 7800, day + 86400 + 4000)


@pytest.mark.parametrize("text", ["noon", "9-11", "09:00-09:00", "25:00-26:00", "09:61-10:00", ""])
def test_bad_peaks_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="--peak"):
        parse_peak(text)


def test_peaks_may_go_over_midnight() -> None:
    assert parse_peak("23:00-01:00,00:30-02:00") == ((0, 120), (1380, 1440))
    assert parse_peak("auto") is None


def test_bad_groups_are_refused_all_at_once() -> None:
    with pytest.raises(InvalidDocumentError, match="2 mistakes"):
        read_groups({"a": [], "b": ["x..y"], "c": ["fine.>"]}, "groups.json")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["profile", "--input", "x", "--output", "y"], "nothing says what the brokers can carry"),
        (["profile", "--input", "x", "--output", "y", "--capacity", "0"], "--capacity: 0"),
        (["profile", "--input", "x", "--output", "y", "--model", "none.json"], "cannot read the model"),
        (["slo", "--input", "x", "--output", "y", "--seconds", "5"], "--seconds goes with --stream"),
        (["cases", "--input", "x", "--output", "y", "--solver", "magic"], "--solver: 'magic'"),
        (["report", "--input", "nowhere", "--output", "y"], "nowhere is not a directory"),
        (["synthetic", "--output", "y", "--hours", "-1"], "--hours: -1"),
    ],
)
def test_mistakes_on_the_command_line_exit_with_2(arguments: list[str], message: str, tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "mangrove.cli.main", "pipeline", *arguments],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
        check=False,
    )
    assert (run.returncode, run.stdout) == (2, ""), run.stderr
    assert f"error: {message}" in run.stderr
    assert "Traceback" not in run.stderr
    assert list(tmp_path.iterdir()) == []


def test_calibrate_measures_a_real_broker(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mangrove.cli.main", "calibrate", "--lake", str(tmp_path / "lake")]
    command += ["--subscribers", "1,8", "--filters", "0,50", "--sizes", "64", "--messages", "5000", "--json"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)
    assert run.returncode == 0, run.stderr
    runs = json.loads(run.stdout)["runs"]
    assert {(r["replication"], r["filters"]) for r in runs} == {(1, 0), (1, 50), (8, 0), (8, 50)}
    assert all(r["processing_time_s"] > 0 and r["messages"] == 5000 for r in runs)
    (file,) = (tmp_path / "lake" / "calibration_runs").rglob("*.parquet")
    assert pq.read_metadata(file).num_rows == 4
