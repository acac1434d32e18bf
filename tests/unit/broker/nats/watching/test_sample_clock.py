"""When a sample was taken: never outside of what our own clock allows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from mangrove.broker.nats.watching.sample_clock import SampleClock

BEGAN = datetime(2026, 3, 2, tzinfo=UTC)


def theirs(second: float) -> datetime:
    return BEGAN + timedelta(seconds=second)


def test_an_answer_that_was_read_late_is_of_the_moment_at_which_it_was_made() -> None:
    clock = SampleClock()
    first = clock.taken_at(100.0, 100.002, theirs(0.0))
    late = clock.taken_at(101.0, 103.0, theirs(1.0))
    after = clock.taken_at(103.1, 103.102, theirs(3.1))
    assert abs(late - first - 1.0) < 0.01, "and not 3 s, which would make every rate a third"
    assert abs(after - late - 2.1) < 0.01


def test_without_a_clock_it_is_when_it_was_heard() -> None:
    assert SampleClock().taken_at(1.0, 2.0, None) == 2.0


@given(
    st.lists(
        st.tuples(st.floats(0.0, 5.0), st.floats(0.0, 5.0), st.floats(-1e6, 1e6)), min_size=1, max_size=20
    )
)
def test_a_clock_that_jumps_does_no_harm(steps: list[tuple[float, float, float]]) -> None:
    clock, now = SampleClock(), 1000.0
    for pause, took, shown in steps:
        asked = now + pause
        now = asked + took
        assert asked <= clock.taken_at(asked, now, theirs(shown)) <= now
