"""A token bucket under any sequence of attempts, clocks and changes of its rate."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mangrove.model.congestion.token_bucket import BURST_S, TokenBucket

rates = st.sampled_from([0.5, 1.0, 7.0, 10.0, 1_000.0, 50_000.0])
steps = st.lists(
    st.tuples(st.sampled_from([0.0, 1e-6, 1e-3, 0.02, 0.5, 3.0, 3600.0]), st.integers(1, 300)),
    min_size=1,
    max_size=60,
)


def burst(rate: float) -> float:
    return max(1.5, rate * BURST_S) if rate else 0.0


@settings(max_examples=150)
@given(rate=rates, steps=steps, size_bytes=st.integers(0, 5_000))
def test_no_span_has_more_than_its_rate_and_a_burst(
    rate: float, steps: list[tuple[float, int]], size_bytes: int
) -> None:
    bucket = TokenBucket(rate, None, 0.0)
    now, passed = 0.0, []
    for pause_s, attempts in steps:
        now += pause_s
        passed.append((now, bucket.take(attempts, size_bytes, now)))
    for first, (begun, _) in enumerate(passed):
        total = 0
        for ended, count in passed[first:]:
            total += count
            assert total <= rate * (ended - begun) + burst(rate) + 1e-6


@settings(max_examples=150)
@given(rate=st.sampled_from([1.0, 1_000.0, 1e6]), steps=steps, sizes=st.randoms(use_true_random=False))
def test_bytes_keep_to_their_rate_and_one_message_more(
    rate: float, steps: list[tuple[float, int]], sizes: random.Random
) -> None:
    bucket = TokenBucket(None, rate, 0.0)
    now, total, largest = 0.0, 0, 0
    for pause_s, attempts in steps:
        now += pause_s
        size_bytes = sizes.choice([1, 100, 10_000, 1_000_000])
        passed = bucket.take(attempts, size_bytes, now)
        total += passed * size_bytes
        largest = max(largest, size_bytes) if passed else largest
        assert total <= rate * now + burst(rate) + largest + 1e-6


@settings(max_examples=40)
@given(
    rate=st.sampled_from([3.0, 10.0, 47.0, 1_000.0]),
    excess=st.sampled_from([20, 50]),
    seed=st.integers(0, 1000),
    jitter=st.sampled_from([0.0, 0.5, 1.0]),
)
def test_who_tries_more_passes_exactly_its_rate(rate: float, excess: int, seed: int, jitter: float) -> None:
    """Also when attempts come in heaps, as timers bring them, and whatever the rate."""
    rng = random.Random(seed)
    bucket, now, passed, seconds = TokenBucket(rate, None, 0.0), 0.0, 0, 10.0 + 20 / rate
    while now < seconds:
        heap = rng.randint(1, 4) if jitter else 1
        now += heap / (rate * excess) * rng.uniform(1 - jitter, 1 + jitter)
        passed += sum(bucket.take(1, 10, now) for _ in range(heap))
    assert rate * now - 1 <= passed <= rate * now + burst(rate) / 2 + 1


@settings(max_examples=150)
@given(
    changes=st.lists(
        st.tuples(
            st.sampled_from([0.0, 0.001, 0.05, 1.0]),
            st.sampled_from([0.0, 1.0, 10.0, 1_000.0]),
            st.integers(0, 200),
        ),
        max_size=60,
    )
)
def test_changes_of_the_rate_give_nothing_away(changes: list[tuple[float, float, int]]) -> None:
    bucket, now, rate = TokenBucket(1.0, None, 0.0), 0.0, 1.0
    earned, passed = burst(1.0), 0
    for pause_s, new_rate, attempts in changes:
        now += pause_s
        earned += rate * pause_s
        bucket.change(new_rate, None, now)
        rate = new_rate
        passed += bucket.take(attempts, 0, now)
        assert passed <= earned + 1e-6


@given(attempts=st.lists(st.tuples(st.floats(0, 0.01), st.integers(0, 3_000)), max_size=80))
@settings(max_examples=60)
def test_one_by_one_is_the_same_as_several_at_once(attempts: list[tuple[float, int]]) -> None:
    single, several = TokenBucket(300.0, 90_000.0, 0.0), TokenBucket(300.0, 90_000.0, 0.0)
    now = 0.0
    for pause_s, size_bytes in attempts:
        now += pause_s
        count = 0
        for _ in range(7):
            if single.open(now):
                single.spend(size_bytes)
                count += 1
        assert several.take(7, size_bytes, now) == count


def test_a_clock_that_stands_still_or_goes_back_gives_nothing() -> None:
    bucket = TokenBucket(1_000.0, None, 100.0)
    assert bucket.take(500, 10, 100.0) == 50
    assert [bucket.take(500, 10, now) for now in (100.0, 99.0, 0.0, 100.0)] == [0, 0, 0, 0]
    assert bucket.take(500, 10, 100.0105) == 10


def test_a_machine_that_slept_gets_one_burst() -> None:
    bucket = TokenBucket(1_000.0, None, 0.0)
    bucket.take(500, 10, 0.0)
    assert bucket.take(5_000, 10, 3_600.0) == 100
    assert bucket.take(5_000, 10, 3_600.0) == 0


def test_nothing_and_everything() -> None:
    closed, open_ = TokenBucket(0.0, None, 0.0), TokenBucket(None, None, 0.0)
    assert closed.take(5, 1, 1_000.0) == 0
    assert closed.wait_s(1_000.0) == math.inf
    assert open_.take(10**9, 10**6, 0.0) == 10**9
    assert open_.wait_s(0.0) == 0.0


def test_a_message_larger_than_the_bucket_passes_and_is_paid_back() -> None:
    bucket = TokenBucket(None, 1_000.0, 0.0)
    assert bucket.take(1, 10_000, 0.0) == 1
    assert bucket.wait_s(0.0) == pytest.approx(9.95, abs=1e-3)
    assert bucket.take(1, 1, 9.9) == 0
    assert bucket.take(1, 1, bucket.wait_s(9.9) + 9.9) == 1


def test_a_debt_of_better_times_does_not_silence_for_ever() -> None:
    bucket = TokenBucket(None, 1e8, 0.0)
    bucket.take(10, 10_000_000, 0.0)
    debt_s = bucket.wait_s(0.0)
    bucket.change(None, 1_000.0, 0.0)
    assert bucket.wait_s(0.0) <= debt_s + 1e-3


def test_what_was_unlimited_has_saved_nothing() -> None:
    bucket = TokenBucket(None, None, 0.0)
    bucket.change(1_000.0, None, 5.0)
    assert bucket.take(1_000, 1, 5.0105) == 10


@pytest.mark.parametrize("rate", [-1.0, math.nan, -math.inf])
def test_impossible_rates_are_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="below 0"):
        TokenBucket(rate, None, 0.0)
