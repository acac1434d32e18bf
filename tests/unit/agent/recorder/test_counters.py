"""Counters across restarts."""

from __future__ import annotations

from mangrove.agent.recorder.counters import ROUNDS_TO_FORGET, Counters


def test_counters_that_are_reset_start_anew() -> None:
    counters = Counters()
    assert counters.since("in", 100) == 0
    assert counters.since("in", 130) == 30
    assert counters.since("in", 5) == 5
    assert counters.resets == 1
    assert counters.since_known("old", 1000) == 0, "it was there before the recorder"
    counters.sweep()
    assert counters.since_known("new", 7) == 7
    assert counters.since_known("old", 1003) == 3
    for _ in range(2 * ROUNDS_TO_FORGET):
        counters.sweep()
    assert counters.since("in", 9) == 0, "what was not seen for long is forgotten"
