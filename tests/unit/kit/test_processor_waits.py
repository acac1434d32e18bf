"""The clock of attack tests: excuses a machine that is busy with others, and nothing that a gateway does."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.processor_waits import ExcusedTime, ProcessorWaits, Usage, usages

GATEWAY, BROKER = 1, 2


def sampled(*samples: tuple[float, dict[int, tuple[float, float]]]) -> ExcusedTime:
    """Each sample: seconds, and by thread how much it ran and waited in them."""
    now, clock = 0.0, ExcusedTime(0.0)
    total: dict[int, Usage] = {GATEWAY: Usage(0, 0), BROKER: Usage(0, 0)}
    clock.sample(0.0, dict(total))
    for seconds, used in samples:
        now += seconds
        for thread, (ran, waited) in used.items():
            total[thread] = Usage(total[thread].ran_s + ran, total[thread].waited_s + waited)
        clock.sample(now, dict(total))
    return clock


def test_who_is_not_let_run_is_excused() -> None:
    clock = sampled((1.0, {GATEWAY: (0.1, 0.9)}), (1.0, {GATEWAY: (0.1, 0.0)}))
    assert clock.between(0.0, 1.0) == pytest.approx(0.1)
    assert clock.between(1.0, 2.0) == pytest.approx(1.0)
    assert clock.between(0.5, 1.5) == pytest.approx(0.55)


def test_who_is_at_work_is_not_excused_by_others_that_wait() -> None:
    clock = sampled((0.4, {GATEWAY: (0.4, 0.0), BROKER: (0.0, 0.4)}))
    assert clock.between(0.0, 0.4) == pytest.approx(0.4)


def test_who_sleeps_is_not_excused() -> None:
    assert sampled((0.4, {})).between(0.0, 0.4) == pytest.approx(0.4)


def test_waits_at_the_same_time_count_once() -> None:
    clock = sampled((1.0, {GATEWAY: (0.0, 0.3), BROKER: (0.0, 0.3)}))
    assert clock.between(0.0, 1.0) == pytest.approx(0.7)


@given(
    st.lists(
        st.tuples(st.floats(0.001, 1.0), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1)),
        min_size=1,
        max_size=20,
    )
)
def test_what_counts_is_never_less_than_the_work_nor_more_than_the_time(
    steps: list[tuple[float, float, float, float, float]],
) -> None:
    samples = [
        (
            seconds,
            {GATEWAY: (seconds * a, seconds * b * (1 - a)), BROKER: (seconds * c, seconds * d * (1 - c))},
        )
        for seconds, a, b, c, d in steps
    ]
    clock, start = sampled(*samples), 0.0
    for seconds, used in samples:
        counted = clock.between(start, start + seconds)
        assert counted <= seconds + 1e-9
        assert counted >= max(ran for ran, _ in used.values()) - 1e-9
        start += seconds


def test_linux_tells_what_threads_use() -> None:
    before = sum(used.ran_s for used in usages([os.getpid()]).values())
    sum(number * number for number in range(1_000_000))
    assert sum(used.ran_s for used in usages([os.getpid()]).values()) > before
    assert usages([2**22 + 1]) == {}
    waits = ProcessorWaits([os.getpid()])
    waits.start()
    waits.settle()
    waits.stop()
