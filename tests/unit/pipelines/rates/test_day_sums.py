"""Sums of days in files, without Spark: kept and added, they are the sums of all days."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mangrove.pipelines.rates.day_sums import KEPT_OF_A_DAY, DaySums, keepable
from mangrove.pipelines.rates.peaks import Periods
from mangrove.pipelines.rates.sums import Adder, Sums
from mangrove.pipelines.reading.lake_scan import Part

STREAMS = [("d", "b1", "x"), ("d", "b1", "y"), ("d", "b2", "x"), ("e", "b", "x")]
PERIODS = Periods((0, 86400), (3600, 90000), 60)
PART = Part("1970-01-01", "d")


def some_sums(adder: Adder, seed: int, streams: list[int]) -> Sums:
    """As if only some streams had rows."""
    rng = np.random.default_rng(seed)
    sums = Sums.none(len(adder.topics), len(adder.streams))
    topics = np.unique(adder.topic_of_stream[streams])
    counts = np.zeros((50, len(adder.topics)), dtype=np.int64)
    counts[:, topics] = rng.integers(1, 10**6, (50, len(topics)))
    sums.gram, sums.total, sums.most = counts.T @ counts, counts.sum(axis=0), counts.max(axis=0)
    sums.power, sums.windows = (counts.astype(float) ** 2).sum(axis=0), 50
    sums.streams[:, streams] = rng.integers(1, 100, (len(sums.streams), len(streams)))
    return sums


def test_kept_days_add_up_though_topics_have_come_since(tmp_path: Path) -> None:
    kept = DaySums(tmp_path, {PART: 1})
    early = Adder(STREAMS[1:3], PERIODS, by_day=True)
    late = Adder(STREAMS, PERIODS, by_day=True)
    first, second = some_sums(early, 1, [0, 1]), some_sums(late, 2, [0, 3])
    kept._keep(tmp_path / "0-a.npz", first, early)
    kept._keep(tmp_path / "1-b.npz", second, late)
    found = Sums.none(len(late.topics), len(late.streams))
    assert kept._add(found, late, "0-a.npz")
    assert kept._add(found, late, "1-b.npz")
    assert not kept._add(found, late, "2-c.npz")
    place = np.ix_([0, 1], [0, 1])
    expected = second.gram.copy()
    expected[place] += first.gram
    assert (found.gram == expected).all()
    assert found.total.tolist() == (second.total + np.append(first.total, 0)).tolist()
    assert found.most.tolist() == np.maximum(second.most, np.append(first.most, 0)).tolist()
    assert (found.streams[:, 1:3] == second.streams[:, 1:3] + first.streams).all()
    assert found.windows == 100


def test_what_is_damaged_is_not_added(tmp_path: Path) -> None:
    kept, adder, path = DaySums(tmp_path, {}), Adder(STREAMS, PERIODS, by_day=True), tmp_path / "0-a.npz"
    kept._keep(path, some_sums(adder, 1, [0, 3]), adder)
    whole = path.read_bytes()
    for content in (b"", whole[:100], whole[:-30], b"no archive"):
        path.write_bytes(content)
        sums = Sums.none(len(adder.topics), len(adder.streams))
        assert not kept._add(sums, adder, path.name)
        assert not sums.gram.any()


def test_a_name_tells_all_that_sums_depend_on(tmp_path: Path) -> None:
    kept = DaySums(tmp_path, {PART: 1})
    name = kept._name(0, PERIODS, frozenset({PART}))
    # A period of another day does not matter; a part that was made anew, the window and the period do.
    assert name == kept._name(0, Periods((0,), (3600,), 60), frozenset({PART}))
    others = {
        DaySums(tmp_path, {PART: 2})._name(0, PERIODS, frozenset({PART})),
        kept._name(0, Periods((0,), (3600,), 120), frozenset({PART})),
        kept._name(0, Periods((0,), (3660,), 60), frozenset({PART})),
        kept._name(0, PERIODS, frozenset({PART, Part("1970-01-01", "e")})),
        kept._name(1, PERIODS, frozenset({PART})),
    }
    assert len(others - {name}) == 5


def test_only_some_names_of_a_day_are_kept(tmp_path: Path) -> None:
    for number in range(9):
        (tmp_path / f"3-{number}.npz").touch()
    DaySums(tmp_path, {})._forget({3: "3-4.npz"})
    left = [path.name for path in tmp_path.iterdir()]
    assert len(left) == KEPT_OF_A_DAY
    assert "3-4.npz" in left


def test_days_must_be_made_of_whole_windows() -> None:
    assert [keepable(Periods((0,), (700,), window_s)) for window_s in (1, 7, 60, 3600)] == [
        True,
        False,
        True,
        True,
    ]
