"""Quantiles of delays: true to a tenth, and of the recent past."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from mangrove.overlay.delivery.delay_record import FIRST_MS, MAX_COUNT, RATIO, DelayRecord


@given(st.lists(st.floats(0.0, 100_000.0), min_size=1, max_size=200), st.sampled_from([0.5, 0.9, 0.99, 1.0]))
@settings(max_examples=100)
def test_a_quantile_is_too_large_by_a_tenth_at_most(delays_ms: list[float], share: float) -> None:
    record = DelayRecord()
    for delay_ms in delays_ms:
        record.add(delay_ms)
    found = record.quantile_ms(share)
    ordered = sorted(delays_ms)
    true_ms = next(each for rank, each in enumerate(ordered, 1) if rank >= share * len(ordered) - 1e-9)
    assert found is not None
    assert true_ms / (1 + 1e-9) <= max(found, true_ms)
    assert found <= max(true_ms * RATIO * (1 + 1e-9), FIRST_MS)
    assert found >= true_ms * (1 - 1e-9) or true_ms <= FIRST_MS


def test_what_is_long_ago_counts_less() -> None:
    record = DelayRecord()
    assert record.quantile_ms(0.5) is None
    for _ in range(MAX_COUNT):
        record.add(10.0)
    for _ in range(2 * MAX_COUNT):
        record.add(1000.0)
    median = record.quantile_ms(0.5)
    assert median is not None
    assert median >= 1000.0
