"""How long markers take, from those that were heard and those that were not."""

from __future__ import annotations

import pytest

from mangrove.gateway.probing.latency_estimate import GIVEN_UP_S, LatencyEstimate


def test_nothing_is_known_before_the_first_marker() -> None:
    estimate = LatencyEstimate()
    estimate.sent(1, 0.0)
    assert estimate.mean_s(5.0) is None
    assert not estimate.settled(5.0)


def test_the_mean_follows_the_markers() -> None:
    estimate = LatencyEstimate()
    for number in range(50):
        estimate.sent(number, float(number))
        estimate.heard(number, number + 0.01)
    assert estimate.mean_s(50.0) == pytest.approx(0.01)
    assert estimate.settled(50.0)
    for number in range(50, 70):
        estimate.sent(number, float(number))
        estimate.heard(number, number + 0.1)
    assert estimate.mean_s(70.0) == pytest.approx(0.1, rel=0.01)


def test_a_broker_that_answers_nothing_is_slow() -> None:
    estimate = LatencyEstimate()
    estimate.add(0.001)
    estimate.sent(1, 0.0)
    assert estimate.mean_s(0.0005) == pytest.approx(0.001)
    assert estimate.mean_s(1.0) == pytest.approx(0.25, rel=0.01)
    assert not estimate.settled(1.0)
    before = estimate.mean_s(1.0)
    estimate.heard(1, 1.0)
    assert estimate.mean_s(1.0) == before


def test_a_marker_that_was_lost_on_the_way_makes_nobody_slow_who_answers_later_ones() -> None:
    estimate = LatencyEstimate()
    for number in range(30):
        estimate.sent(number, number / 5)
        if number not in (20, 21):
            estimate.heard(number, number / 5 + 0.001)
    for mean in (estimate.mean_s(6.0), estimate.mean_s(6.0 + GIVEN_UP_S)):
        assert mean == pytest.approx(0.001)
    assert estimate.settled(6.0)
    estimate.heard(20, 6.5)
    assert estimate.mean_s(6.5) == pytest.approx(0.001), "given up already"


def test_later_markers_are_awaited_when_an_earlier_one_is_heard() -> None:
    estimate = LatencyEstimate()
    estimate.add(0.001)
    for number in (1, 2, 3):
        estimate.sent(number, float(number))
    estimate.heard(1, 1.001)
    assert estimate.mean_s(4.0) == pytest.approx(0.001 + (2.0 - 0.001) / 4)
    estimate.heard(3, 3.001)
    assert estimate.mean_s(9.0) == pytest.approx(0.001)


def test_what_was_lost_with_a_connection_is_not_awaited() -> None:
    estimate = LatencyEstimate()
    estimate.add(0.001)
    estimate.sent(1, 0.0)
    estimate.forget_awaited()
    assert estimate.mean_s(9.0) == pytest.approx(0.001)


def test_a_marker_is_given_up_at_last() -> None:
    estimate = LatencyEstimate()
    estimate.add(0.001)
    estimate.sent(1, 0.0)
    estimate.sent(2, GIVEN_UP_S + 1)
    estimate.heard(1, GIVEN_UP_S + 1)
    assert estimate.mean_s(GIVEN_UP_S + 1) == pytest.approx(0.001)


def test_markers_that_nobody_sent_are_not_looked_at() -> None:
    estimate = LatencyEstimate()
    estimate.heard(7, 1.0)
    assert estimate.mean_s(1.0) is None
