"""The bins of latencies."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mangrove.model.telemetry import LATENCY_BINS, LATENCY_BOUNDS_MS, latency_bin


@given(st.floats(-10, 1e7, allow_nan=False))
def test_latency_bins_hold_what_their_bounds_say(latency: float) -> None:
    place = latency_bin(latency)
    assert 0 <= place < LATENCY_BINS
    assert place == LATENCY_BINS - 1 or latency <= LATENCY_BOUNDS_MS[place]
    assert place == 0 or latency > LATENCY_BOUNDS_MS[place - 1]
