"""Forecasts on loads with a known pattern, and triggers on loads with known overloads."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mangrove.model.balancing import Balancing
from mangrove.pipelines.load.forecast import AHEAD, forecast
from mangrove.pipelines.load.replay import by_method, replay

START = 490_000


def weekly(hour: int) -> float:
    """Busy by day, quiet on the last two days of the week."""
    day = 0.4 + 0.3 * math.sin(2 * math.pi * hour / 24)
    return day if hour % 168 < 120 else 0.3 * day


def test_a_weekly_pattern_is_found_exactly() -> None:
    history = {START + n: weekly(n) for n in range(4 * 168)}
    found = forecast(history)
    assert found is not None
    assert found.season_hours == 168
    assert found.first_hour == START + 4 * 168
    assert found.load == pytest.approx([weekly(n) for n in range(4 * 168, 4 * 168 + AHEAD)])
    assert found.error == pytest.approx(0.0, abs=1e-12)
    # The day before is another kind of day twice a week.
    assert found.naive_error is not None
    assert found.naive_error > 0.02


def test_with_noise_it_is_better_than_the_day_before() -> None:
    rng = np.random.default_rng(4)
    history = {START + n: weekly(n) + float(rng.normal(0, 0.05)) for n in range(6 * 168)}
    found = forecast(history)
    assert found is not None
    assert found.error is not None
    assert found.naive_error is not None
    assert found.tested_hours > 200
    assert found.error < 0.75 * found.naive_error


def test_short_histories_go_by_the_day_or_not_at_all() -> None:
    assert forecast({}) is None
    assert forecast({START + n: 0.5 for n in range(23)}) is None
    found = forecast({START + n: float(n % 24) for n in range(72)})
    assert found is not None
    assert found.season_hours == 24
    assert found.load == pytest.approx([float(n) for n in range(24)])
    alone = forecast({START + n: 0.5 for n in range(24)})
    assert alone is not None
    assert alone.error is None
    assert alone.load == pytest.approx([0.5] * 24)


def test_the_coming_day_is_that_of_the_lake() -> None:
    history = {START + n: float(n % 24) for n in range(72)}
    for behind in (0, 5, 23):
        found = forecast(history, START + 71 + behind)
        assert found is not None
        assert found.first_hour == START + 72 + behind
        assert found.load == pytest.approx([float((n + behind) % 24) for n in range(24)])
        assert found.tested_hours == 18
        assert found.error == pytest.approx(0.0, abs=1e-12)
    assert forecast(history, START + 71 + 24) is None, "a broker that is gone"


@settings(max_examples=60, deadline=None)
@given(
    history=st.dictionaries(
        st.integers(START, START + 500), st.floats(0, 2, allow_nan=False), min_size=1, max_size=60
    )
)
def test_holes_do_no_harm(history: dict[int, float]) -> None:
    found = forecast(history)
    if found is not None:
        least, most = min(history.values()), max(history.values())
        assert len(found.load) == AHEAD
        assert all(least - 1e-9 <= each <= most + 1e-9 for each in found.load)


def row(second: int, broker: str, share: float, measured: str = "low", **other: Any) -> dict[str, Any]:
    over = "matching" if measured == "overload" else ""
    found = {"second": second, "broker": broker, "role": "edge", "reachable": True, "measured": measured}
    found |= {"input": None, "output": float("nan"), "matching": share, "headroom": 0.95 - share}
    return {**found, "overloaded": over, **other}


def test_overload_and_imbalance_start_their_methods() -> None:
    rows = []
    for second in range(60):
        over = 20 <= second < 45
        rows.append(row(second, "a", 0.97 if over else 0.5, "overload" if over else "low"))
        rows.append(row(second, "b", 0.5))
    starts = replay(rows, Balancing())
    # 25 s of overload, and a session takes ten.
    for kind in ("overload", "imbalance"):
        assert [s["second"] for s in starts if s["started_by"] == kind] == [20, 30, 40]
    assert {(s["broker"], s["acceptors"]) for s in starts} == {("a", 1)}
    methods = {each["method"]: each for each in by_method(starts)}
    assert methods["drd"]["would_move"] == methods["peer"]["would_move"] == 3
    # Two that differ, without overload: only PEER moves.
    apart = replay([row(0, "a", 0.7), row(0, "b", 0.5)], Balancing())
    assert [s["started_by"] for s in apart] == ["imbalance"]
    assert not replay([row(0, "a", 0.7), row(0, "b", 0.5)], Balancing(imbalance=0.3))


def test_nobody_to_take_it_and_nobody_to_ask() -> None:
    both = [row(0, name, 0.97, "overload") for name in "ab"]
    (start,) = replay(both, Balancing())
    assert (start["started_by"], start["acceptors"]) == ("overload", 0)
    assert by_method([start])[0] | {"brokers": 1} == {
        "method": "drd",
        "started_by": "overload",
        "would_move": 0,
        "nobody_takes": 1,
        "brokers": 1,
    }
    strange = [row(0, "a", 0.97, "overload", reachable=False), row(0, "b", 0.99, "melting")]
    assert not replay(strange, Balancing())
