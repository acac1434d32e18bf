"""Rates in blocks: packing and sums, without Spark."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mangrove.pipelines.rates.blocks import BlockSummer, Periods, narrow, pack, wide
from mangrove.pipelines.rates.rates_file import COUNTS, RatesBatch


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
