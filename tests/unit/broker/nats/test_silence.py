"""A broker that says nothing is doubted, then given up; who did not listen itself blames nobody."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from mangrove.broker.nats.silence import DOUBTED_AFTER, LOOK_S, SILENT_AFTER, Life, SilenceWatch


def test_silence_is_doubted_first_and_a_word_ends_the_doubt() -> None:
    watch = SilenceWatch(0.0)
    lives = [watch.look(LOOK_S * look, heard=0) for look in range(1, SILENT_AFTER)]
    assert lives[: DOUBTED_AFTER - 1] == [Life.ALIVE] * (DOUBTED_AFTER - 1)
    assert set(lives[DOUBTED_AFTER - 1 :]) == {Life.DOUBTED}
    assert watch.look(LOOK_S * SILENT_AFTER, heard=1) is Life.ALIVE
    later = LOOK_S * SILENT_AFTER
    lives = [watch.look(later + LOOK_S * look, heard=1) for look in range(1, SILENT_AFTER + 1)]
    assert lives[-1] is Life.SILENT
    assert lives[-2] is Life.DOUBTED


@settings(max_examples=60)
@given(st.lists(st.floats(0.16, 30.0), min_size=1, max_size=30))
def test_looks_that_come_late_are_not_held_against_the_broker(pauses: list[float]) -> None:
    watch, now = SilenceWatch(0.0), 0.0
    for pause in pauses:
        now += pause
        assert watch.look(now, heard=0) is Life.ALIVE
