"""The clock of those who measure: it runs while they can look, and stands still while they cannot."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangrove.client import Message, Outcome
from mangrove.model.shared_names import ID_HEADER, TIME_HEADER
from mangrove.testbed.awake_time import ALLOWED_S, BEAT_S, AwakeTime
from mangrove.testbed.traffic import Account, Stream


def beats(clock: AwakeTime, start_s: float, end_s: float) -> None:
    steps = round((end_s - start_s) / BEAT_S)
    for step in range(steps + 1):
        clock.beat(start_s + step * BEAT_S)


def test_time_passes_with_the_beats() -> None:
    clock = AwakeTime(5.0)
    beats(clock, 5.0, 7.0)
    assert clock.at(7.0) == pytest.approx(7.0)
    assert clock.held_up_s == 0.0


def test_time_held_up_is_left_out_whoever_comes_first() -> None:
    """After a hold-up the arrivals may be served before the beat that is overdue, or after it."""
    clock = AwakeTime(0.0)
    beats(clock, 0.0, 1.0)
    before = clock.at(2.5)
    clock.beat(2.5)
    assert clock.at(2.5) == before == pytest.approx(1.0 + BEAT_S)
    assert clock.held_up_s == pytest.approx(1.5 - BEAT_S)
    beats(clock, 2.5, 3.0)
    assert clock.at(3.0) == pytest.approx(1.5 + BEAT_S)


@given(st.lists(st.floats(0.0, 2.0), min_size=1, max_size=30))
def test_it_never_runs_backwards_nor_faster_than_time(steps_s: list[float]) -> None:
    clock = AwakeTime(0.0)
    now_s = shown = 0.0
    for step_s in steps_s:
        now_s += step_s
        looked = clock.at(now_s)
        clock.beat(now_s)
        assert looked == pytest.approx(clock.at(now_s))
        assert shown - 1e-9 <= looked <= shown + step_s + 1e-9
        assert looked - shown <= BEAT_S + ALLOWED_S + 1e-9
        shown = looked


async def no_answer(reply: str, data: bytes, headers: Mapping[str, str] | None) -> Outcome:
    raise AssertionError("nobody asked")


def message(number: int) -> Message:
    return Message("feed", b"", {ID_HEADER: str(number), TIME_HEADER: "0"}, "", no_answer)


def test_a_gap_counts_only_while_one_could_look() -> None:
    """The cause of a demonstration that failed on a busy machine: its own process had stood still."""
    account = Account(Stream("feed", "a", ("b",), 10))
    clock = AwakeTime(0.0)
    beats(clock, 0.0, 1.0)
    account.restart_gap(clock.at(1.0))
    account.arrived("b", message(1), 1.0, clock.at(1.0))
    account.arrived("b", message(2), 2.4, clock.at(2.4))  # nothing ran in between
    assert account.longest_gap_s(clock.at(2.4)) <= 1.5 * BEAT_S
    clock.beat(2.4)
    beats(clock, 2.4, 3.6)
    account.arrived("b", message(3), 3.6, clock.at(3.6))  # it ran, and nothing came
    assert account.longest_gap_s(clock.at(3.6)) == pytest.approx(1.2)


async def test_beating_notices_a_process_that_stood_still() -> None:
    loop = asyncio.get_running_loop()
    clock = AwakeTime(loop.time())
    beating = asyncio.create_task(clock.beating())
    await asyncio.sleep(0.1)
    before = clock.held_up_s
    loop.call_soon(time.sleep, 0.3)  # the whole loop stands still, on purpose
    await asyncio.sleep(0.05)
    beating.cancel()
    assert 0.2 < clock.held_up_s - before < 1.0
