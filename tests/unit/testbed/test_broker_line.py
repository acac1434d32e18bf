"""A broker's line as arithmetic: what passes in a second, and what waiting costs."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mangrove.testbed.broker_lines.line import BYTES_A_MEGABIT, MIN_BURST_BYTES, Line, bandwidth_problem


def carried(line: Line, pieces: list[int], seconds: float, start: float = 0.0) -> int:
    """Bytes that pass in so long when somebody always has something to send, in these pieces in turn."""
    now, passed, turn = start, 0, 0
    while True:
        now += line.wait_s(now)
        if now >= start + seconds:
            return passed
        size = pieces[turn % len(pieces)]
        line.passed(size, now)
        passed += size
        turn += 1


@settings(max_examples=50)
@given(
    st.floats(min_value=0.1, max_value=40.0),
    st.lists(st.integers(min_value=500, max_value=65536), min_size=1, max_size=5),
)
def test_a_line_carries_its_bandwidth_and_no_more(mbps: float, pieces: list[int]) -> None:
    line = Line(mbps)
    passed = carried(line, pieces, 1.0)
    due = mbps * BYTES_A_MEGABIT
    burst = max(MIN_BURST_BYTES, 0.02 * mbps * BYTES_A_MEGABIT)
    assert passed <= due + burst + max(pieces)
    assert passed >= due - max(pieces) - 1
    assert line.passed_bytes == passed


def test_a_narrowed_line_carries_less_from_then_on() -> None:
    line = Line(8.0)
    line.wait_s(0.0)
    whole = carried(line, [1000], 1.0, start=10.0)
    line.change(2.4, 11.0)
    rest = carried(line, [1000], 1.0, start=11.0)
    assert whole == pytest.approx(1_000_000, rel=0.03)
    assert rest == pytest.approx(300_000, rel=0.04)
    line.change(None, 12.0)
    assert not line.limited
    assert line.wait_s(12.0) == 0.0


def test_a_clock_that_goes_back_gives_no_credit() -> None:
    line = Line(1.0)
    line.passed(50_000, 10.0)
    waited = line.wait_s(10.0)
    assert line.wait_s(5.0) == pytest.approx(waited)


@pytest.mark.parametrize("mbps", [0.0, -1.0, math.nan, math.inf, 1e7])
def test_impossible_bandwidths_are_named(mbps: float) -> None:
    assert "Mbit/s" in bandwidth_problem(mbps)


@pytest.mark.parametrize("mbps", [None, 0.001, 1e6])
def test_possible_bandwidths_are_taken(mbps: float | None) -> None:
    assert bandwidth_problem(mbps) == ""
