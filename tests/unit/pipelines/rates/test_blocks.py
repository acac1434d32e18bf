"""Blocks of time in numpy, without Spark: packing, repeated rows, sums."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mangrove.pipelines.rates import blocks
from mangrove.pipelines.rates.blocks import (
    COUNTS,
    PIECE,
    block_seconds,
    blocks_of,
    narrow,
    pieces,
    wide,
)
from mangrove.pipelines.reading.lake_reader import arrow_schema

STREAMS = (("b1", "x"), ("b1", "y"), ("b2", "y"))


@given(st.lists(st.integers(0, 2**40), min_size=1))
def test_packing_loses_nothing(values: list[int]) -> None:
    array = np.array(values, dtype=np.int64)
    assert wide(narrow(array), len(values)).tolist() == values


def batch(rows: list[tuple[int, int, int]]) -> pa.RecordBatch:
    """Rows of (microsecond, stream, count) as they come from Spark."""
    columns: dict[str, object] = {
        "ts": pa.array([us for us, _, _ in rows], pa.int64()).cast(pa.timestamp("us", tz="UTC")),
        "day": [0] * len(rows),
        "domain": ["d"] * len(rows),
        "broker": [STREAMS[stream][0] for _, stream, _ in rows],
        "topic": [STREAMS[stream][1] for _, stream, _ in rows],
    }
    counts = {name: [count * (place + 1) for _, _, count in rows] for place, name in enumerate(COUNTS)}
    return pa.RecordBatch.from_pydict(columns | counts)


def test_pieces_travel_as_they_are() -> None:
    found = [*pieces(batch([(1, 0, 5), (2, 1, 7)]), 120), *pieces(batch([(130_000_000, 2, 1 << 40)]), 120)]
    assert pa.RecordBatch.from_pylist(found, schema=arrow_schema(PIECE)).to_pylist() == found


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 299), st.sampled_from([0, 250_000]), st.integers(0, 2), st.integers(-1, 10**6)
        ),
        min_size=1,
        max_size=80,
    ),
    st.integers(1, 4),
    st.randoms(use_true_random=False),
)
def test_blocks_hold_the_largest_row_of_each_moment(
    rows: list[tuple[int, int, int, int]], cuts: int, random: object
) -> None:
    """However rows are cut into batches, ordered and repeated, a block is the dense matrix."""
    flat = [(second * 1_000_000 + micros, stream, count) for second, micros, stream, count in rows]
    best: dict[tuple[int, int], int] = {}
    for us, stream, count in flat:
        if count >= 0:
            best[us, stream] = max(best.get((us, stream), 0), count)
    dense = np.zeros((300, 3), dtype=np.int64)
    for (us, stream), count in best.items():
        dense[us // 1_000_000, stream] += count
    parts: dict[int, list[dict[str, object]]] = {}
    for some in np.array_split(np.arange(len(flat)), cuts):
        for piece in pieces(batch([flat[each] for each in some]), 120):
            parts.setdefault(piece["start_s"], []).append(piece)
    found = np.zeros((360, 3), dtype=np.int64)
    repeated = negative = 0
    for start_s, of_block in parts.items():
        random.shuffle(of_block)  # type: ignore[attr-defined]
        (block,) = blocks_of(of_block, 120)
        own = [STREAMS.index(each) for each in zip(block["brokers"], block["topics"], strict=True)]
        counts = wide(block["counts"], 120 * len(own)).reshape(120, len(own))
        found[start_s : start_s + 120, own] = counts
        bytes_out = wide(block["minutes"][4], 2 * len(own)).reshape(2, len(own))
        assert (bytes_out == 4 * counts.reshape(2, 60, len(own)).sum(axis=1)).all()
        repeated += block["repeated"]
        negative += block["negative"]
    assert (found[:300] == dense).all()
    assert negative == sum(count < 0 for *_, count in rows)
    assert repeated == len(rows) - negative - len(best)


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.integers(0, 119), st.integers(0, 2), st.one_of(st.integers(0, 99), st.just(1 << 50))),
        min_size=1,
        max_size=90,
    )
)
def test_blocks_are_the_same_laid_out_and_counted(rows: list[tuple[int, int, int]]) -> None:
    """Which way is quicker depends on how many cells have a row; the bytes do not."""
    parts = list(pieces(batch([(second * 1_000_000, stream, count) for second, stream, count in rows]), 120))
    found = []
    for dense in (0, 1 << 40):
        with pytest.MonkeyPatch.context() as changed:
            changed.setattr(blocks, "DENSE", dense)
            (block,) = blocks_of(parts, 120)
        arrays = {name: block.pop(name).tolist() for name in ("minute", "load")}
        found.append(block | arrays)
    assert found[0] == found[1]


def test_blocks_are_shorter_where_rows_are_dense() -> None:
    assert [block_seconds(rate) for rate in (0.0, 20.0, 2000.0, 100_000.0)] == [3600, 3600, 600, 60]


@settings(max_examples=30)
@given(
    st.lists(st.tuples(st.integers(0, 119), st.integers(0, 2), st.integers(-1, 99)), min_size=1, max_size=60)
)
def test_a_block_of_very_many_streams_is_several_shorter_ones(rows: list[tuple[int, int, int]]) -> None:
    parts = list(pieces(batch([(second * 1_000_000, stream, count) for second, stream, count in rows]), 120))
    (whole,) = blocks_of(parts, 120)
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(blocks, "BLOCK_CELLS", 100)
        shorter = list(blocks_of(parts, 120))
    width = len(whole["topics"])
    if width < 1 or 120 * width <= 100:
        assert len(shorter) == 1
        return
    dense = np.zeros((120, width), dtype=np.int64)
    for block in shorter:
        assert (block["length_s"], block["topics"]) == (60, whole["topics"])
        start = block["start_s"] - whole["start_s"]
        dense[start : start + 60] = wide(block["counts"], 60 * width).reshape(60, width)
    assert (dense == wide(whole["counts"], 120 * width).reshape(120, width)).all()
    for name in ("rows", "repeated", "differing", "negative"):
        assert sum(block[name] for block in shorter) == whole[name]
    for name in ("minute", "load"):
        assert np.concatenate([block[name] for block in shorter]).tolist() == whole[name].tolist()
