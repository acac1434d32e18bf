"""Exact sums: equal to whole-number arithmetic without limits, in any order, for counts of any size."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mangrove.pipelines.rates.statistics import second_moment, too_large
from mangrove.pipelines.rates.sums import Sums

COUNT = st.one_of(st.integers(0, 50), st.integers(0, 2**30), st.integers(2**40, 2**40 + 1000))


@settings(max_examples=80)
@given(
    st.lists(st.tuples(COUNT, COUNT, COUNT), min_size=1, max_size=30), st.integers(1, 5), st.integers(0, 9)
)
def test_moments_are_exact(rows: list[tuple[int, int, int]], cuts: int, silent: int) -> None:
    counts = np.array(rows, dtype=np.int64)
    sums = Sums.none(3, 0)
    for part in np.array_split(counts, cuts):
        sums.add(part)
    plain = [[sum(row[i] * row[j] for row in rows) for j in range(3)] for i in range(3)]
    assert [[each % 2**64 for each in line] for line in sums.gram.tolist()] == [
        [each % 2**64 for each in line] for line in plain
    ]
    windows = len(rows) + silent
    centre = np.rint(sums.total / windows).astype(np.int64)
    every = [*rows, *[(0, 0, 0)] * silent]
    true = [
        [sum((row[i] - int(centre[i])) * (row[j] - int(centre[j])) for row in every) for j in range(3)]
        for i in range(3)
    ]
    large = too_large(sums.power, sums.total, windows)
    found = second_moment(sums.gram, sums.total, windows, centre)
    for i in range(3):
        assert large[i] or true[i][i] < 2**63
        for j in range(3):
            assert large[i] or large[j] or found[i, j] == float(true[i][j])


def test_what_would_not_fit_is_seen() -> None:
    sums = Sums.none(2, 0)
    sums.add(np.array([[0, 10], [2**32, 12]], dtype=np.int64))
    assert too_large(sums.power, sums.total, 2).tolist() == [True, False]
