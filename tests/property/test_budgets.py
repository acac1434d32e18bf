"""Latency budgets: they add up, none is negative, and more load means more budget."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.overlay.forwarding.budgets import first_budget_ms, hop_budgets_ms, overdue_ms
from mangrove.overlay.network.way_ahead import WayAhead

WAITS = st.lists(st.floats(0, 1000), min_size=1, max_size=8).map(tuple)
WAYS = st.builds(WayAhead, st.floats(0, 2000), WAITS)
LEFT = st.floats(-1000, 5000)


@given(left_ms=LEFT, way=WAYS, by_load=st.booleans())
def test_budgets_add_up_to_the_deadline_less_the_time_on_the_line(
    left_ms: float, way: WayAhead, by_load: bool
) -> None:
    budgets = hop_budgets_ms(left_ms, way, by_load=by_load)
    assert len(budgets) == len(way.waits_ms)
    assert all(budget >= 0 for budget in budgets)
    assert sum(budgets) == pytest.approx(max(0.0, left_ms - way.travel_ms), abs=1e-6)


@given(left_ms=LEFT, way=WAYS, by_load=st.booleans())
def test_what_a_queue_ranks_by_is_the_first_of_them(left_ms: float, way: WayAhead, by_load: bool) -> None:
    budgets = hop_budgets_ms(left_ms, way, by_load=by_load)
    assert first_budget_ms(left_ms, way, by_load=by_load) == pytest.approx(budgets[0], abs=1e-6)


@given(left_ms=LEFT, way=WAYS, by_load=st.booleans())
def test_keeping_all_budgets_is_being_in_time(left_ms: float, way: WayAhead, by_load: bool) -> None:
    """Whoever waits its budget at each hop, as it is reckoned there, arrives when the time is up."""
    travel_ms, waits_ms, left = way.travel_ms, way.waits_ms, left_ms
    for hop in range(len(waits_ms)):
        rest = WayAhead(travel_ms, waits_ms[hop:])
        left -= first_budget_ms(left, rest, by_load=by_load)
    assert left - travel_ms == pytest.approx(-overdue_ms(left_ms, way), abs=1e-3)


@given(left_ms=st.floats(100, 5000), way=WAYS, more=st.floats(1, 500), data=st.data())
def test_load_shifts_budget_to_where_it_is(
    left_ms: float, way: WayAhead, more: float, data: st.DataObject
) -> None:
    hop = data.draw(st.integers(0, len(way.waits_ms) - 1))
    waits = list(way.waits_ms)
    waits[hop] += more
    before = hop_budgets_ms(left_ms, way, by_load=True)
    after = hop_budgets_ms(left_ms, way._replace(waits_ms=tuple(waits)), by_load=True)
    assert after[hop] >= before[hop] - 1e-6


@given(left_ms=LEFT, travel_ms=st.floats(0, 1000), hops=st.integers(1, 8), wait_ms=st.floats(0, 100))
def test_equal_hops_have_equal_budgets(left_ms: float, travel_ms: float, hops: int, wait_ms: float) -> None:
    way = WayAhead(travel_ms, (wait_ms,) * hops)
    for by_load in (True, False):
        budgets = hop_budgets_ms(left_ms, way, by_load=by_load)
        assert max(budgets) - min(budgets) < 1e-6
