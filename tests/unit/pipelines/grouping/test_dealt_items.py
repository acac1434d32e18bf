"""Topics dealt to items: heavy ones alone, the rest in groups of about equal weight."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mangrove.pipelines.grouping.dealt_items import dealt


def test_by_hand() -> None:
    # Four items: 9 and 8 alone; then 5 and 4 open two groups, 3 goes to the lighter one, 2 to the other.
    assert dealt(np.array([2.0, 9.0, 3.0, 8.0, 4.0, 5.0]), 4).tolist() == [0, 1, 2, 3, 2, 0]
    assert dealt(np.array([1.0, 2.0]), 4).tolist() == [0, 1]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0.0, 1e6), min_size=1, max_size=60), st.integers(2, 20))
def test_every_topic_is_in_one_of_so_many_items(weights: list[float], items: int) -> None:
    found = dealt(np.array(weights), items)
    assert sorted(set(found.tolist())) == list(range(min(items, len(weights))))
    # Numbers follow the first topic of each item.
    assert found[0] == 0
    assert (np.diff(np.maximum.accumulate(found)) <= 1).all()
