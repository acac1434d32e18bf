"""Counters across restarts."""

from __future__ import annotations

from mangrove.agent.recorder.counters import Counters


def test_counters_that_are_reset_start_anew() -> None:
    counters = Counters()
    assert counters.since("in", 100) == 0
    assert counters.since("in", 130) == 30
    assert counters.since("in", 5) == 5
    assert counters.resets == 1
