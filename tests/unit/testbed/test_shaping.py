"""The arithmetic of emulated links."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.testbed.shaping import Shape, Shaper


def test_delay_is_added() -> None:
    assert Shaper(Shape(delay_ms=20), seed=1).arrival(now=5.0, size_bytes=100) == pytest.approx(5.020)


def test_bandwidth_makes_chunks_queue() -> None:
    shaper = Shaper(Shape(bandwidth_mbps=8), seed=1)  # one megabyte a second
    assert shaper.arrival(0.0, 1_000_000) == pytest.approx(1.0)
    assert shaper.arrival(0.0, 500_000) == pytest.approx(1.5)
    assert shaper.arrival(10.0, 500_000) == pytest.approx(10.5)


def test_loss_costs_a_round_trip() -> None:
    lossless = Shaper(Shape(delay_ms=50), seed=7)
    lossy = Shaper(Shape(delay_ms=50, loss_ratio=0.5), seed=7)
    extra = [lossy.arrival(float(t), 1000) - lossless.arrival(float(t), 1000) for t in range(1000)]
    rounds = [round(delay / 0.1) for delay in extra]
    assert all(
        delay == pytest.approx(count * 0.1, abs=1e-6) for delay, count in zip(extra, rounds, strict=True)
    )
    assert 0.8 < sum(rounds) / len(rounds) < 1.2  # p / (1 - p) retransmissions on average


@given(
    st.integers(0, 2**32),
    st.lists(st.tuples(st.floats(0, 1), st.integers(1, 10_000)), min_size=1, max_size=30),
    st.floats(0, 100),
    st.floats(0, 0.5),
)
def test_chunks_never_overtake_each_other(
    seed: int, chunks: list[tuple[float, int]], jitter_ms: float, loss: float
) -> None:
    shaper = Shaper(Shape(delay_ms=1, jitter_ms=jitter_ms, bandwidth_mbps=100, loss_ratio=loss), seed)
    again = Shaper(shaper.shape, seed)
    now, last = 0.0, 0.0
    for gap, size in chunks:
        now += gap
        arrival = shaper.arrival(now, size)
        assert arrival == again.arrival(now, size), "the seed decides"
        assert arrival >= max(now + 0.001, last)
        last = arrival
