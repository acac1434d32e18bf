"""Frames that come again are recognised, flow by flow."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mangrove.overlay.delivery.seen_frames import SeenFrames, Verdict
from mangrove.overlay.protocol.frames import (
    Name,
)


def test_duplicates_restarts_and_old_frames() -> None:
    seen = SeenFrames(window=8, flows=4)
    assert seen.check(Name(0, 1, 1, 1)) is Verdict.NEW
    assert seen.check(Name(0, 1, 1, 1)) is Verdict.DUPLICATE
    assert seen.check(Name(1, 1, 1, 1)) is Verdict.NEW, "origins are apart"
    assert seen.check(Name(0, 2, 1, 1)) is Verdict.NEW, "a restarted origin is not taken for a replay"
    assert seen.check(Name(0, 1, 1, 2)) is Verdict.NEW, "what it sent before may come late"
    assert seen.check(Name(0, 2, 1, 100)) is Verdict.NEW
    assert seen.check(Name(0, 2, 1, 93)) is Verdict.NEW
    assert seen.check(Name(0, 2, 1, 92)) is Verdict.TOO_OLD
    assert seen.check(Name(0, 2, 2, 1)) is Verdict.NEW, "flows are apart"
    assert seen.check(Name(0, 2, 3, 1)) is Verdict.NEW
    assert seen.check(Name(0, 2, 1, 100)) is Verdict.DUPLICATE, "the flow heard of longest ago is forgotten"


def test_an_origin_that_names_ever_other_flows_does_not_bring_back_what_others_have_sent() -> None:
    seen = SeenFrames(window=8, flows=4)
    assert seen.check(Name(0, 1, 1, 1)) is Verdict.NEW
    assert {seen.check(Name(1, 1, flow_id, 1)) for flow_id in range(100)} == {Verdict.NEW}
    assert seen.check(Name(0, 1, 1, 1)) is Verdict.DUPLICATE


WINDOWS = st.sampled_from([8, 16, 64])


@given(WINDOWS, st.lists(st.integers(0, 60), max_size=200) | st.lists(st.integers(0, 400), max_size=200))
def test_a_flow_is_judged_as_by_a_perfect_memory_within_its_window(window: int, numbers: list[int]) -> None:
    seen, remembered = SeenFrames(window=window), set[int]()
    for number in numbers:
        verdict = seen.check(Name(0, 1, 1, number))
        if number <= max(remembered, default=-1) - window:
            assert verdict is Verdict.TOO_OLD
        else:
            assert verdict is (Verdict.DUPLICATE if number in remembered else Verdict.NEW)
            remembered.add(number)
