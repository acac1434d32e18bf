"""Losses, duplicates, delays and silences are found, each in its phase."""

from __future__ import annotations

import numpy as np
import pytest

from mangrove.testbed.accounting import Figures, Record, Span, figures

MS = 1_000_000


def record(sent_ms: list[int], arrivals: list[tuple[int, int]]) -> Record:
    """A stream from (number, time) pairs in milliseconds."""
    return Record(
        np.array(sent_ms, dtype=np.int64) * MS,
        np.array([number for number, _ in arrivals], dtype=np.int64),
        np.array([when for _, when in arrivals], dtype=np.int64) * MS,
    )


def over(stream: Record, start_ms: int, end_ms: int) -> Figures:
    return figures(stream, Span(start_ms * MS, end_ms * MS), limit_ms=100)


def test_a_clean_stream() -> None:
    clean = over(record([0, 10, 20, 30], [(0, 5), (1, 15), (2, 25), (3, 35)]), 0, 100)
    assert (clean.sent, clean.delivered, clean.lost, clean.duplicated, clean.late) == (4, 4, 0, 0, 0)
    assert (clean.longest_latency_ms, clean.p50_ms, clean.longest_gap_ms) == (5.0, 5.0, 10.0)
    assert clean.in_time_ratio == 1.0


def test_losses_duplicates_and_lateness_belong_to_the_phase_of_sending() -> None:
    sent = list(range(0, 400, 10))
    arrivals = [(number, 10 * number + 5) for number in range(40) if number not in (12, 13)]
    arrivals += [(11, 390), (11, 391), (35, 392)]
    arrivals[5] = (5, 300)  # sent at 50 ms: late
    stream = record(sent, arrivals)
    first, second, third = over(stream, 0, 100), over(stream, 100, 300), over(stream, 300, 400)
    assert [f.sent for f in (first, second, third)] == [10, 20, 10]
    assert [f.lost for f in (first, second, third)] == [0, 2, 0]
    assert [f.duplicated for f in (first, second, third)] == [0, 2, 1]
    assert [f.late for f in (first, second, third)] == [1, 0, 0]
    assert first.longest_latency_ms == 250.0
    assert (first.in_time_ratio, second.in_time_ratio) == (0.9, 0.9)
    assert second.longest_gap_ms == 30.0


def test_what_a_later_message_came_before_is_out_of_order() -> None:
    stream = record([0, 10, 20, 30, 40], [(0, 5), (3, 35), (1, 36), (2, 37), (1, 38), (4, 45), (3, 46)])
    assert over(stream, 0, 100).out_of_order == 2, "copies that come again are not counted"
    assert [over(stream, start, start + 10).out_of_order for start in (0, 10, 20, 30, 40)] == [0, 1, 1, 0, 0]


def test_a_silence_belongs_to_the_phase_that_holds_its_middle() -> None:
    """Delivery stops a moment before the failure at 100 ms and is back a moment after its end at 300 ms."""
    sent = list(range(0, 400, 10))
    stream = record(sent, [(n, t + 5 if not 90 <= t < 300 else 301 + n % 3) for n, t in enumerate(sent)])
    assert over(stream, 100, 300).longest_gap_ms == 301 - 85
    assert over(stream, 0, 100).longest_gap_ms == 15.0
    assert over(stream, 300, 400).longest_gap_ms <= 10.0


def test_a_stream_that_never_arrives_is_one_silence() -> None:
    dead = over(record([0, 10, 20], []), 0, 100)
    assert (dead.lost, dead.longest_gap_ms, dead.p50_ms, dead.in_time_ratio) == (3, 20.0, None, 0.0)
    assert over(record([], []), 0, 100).in_time_ratio is None


def test_an_arrival_of_what_was_never_sent_is_an_error() -> None:
    with pytest.raises(ValueError, match="never sent"):
        record([0, 10], [(2, 15)])
