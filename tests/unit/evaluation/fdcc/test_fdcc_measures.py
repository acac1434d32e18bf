"""Traffic, QoE and silence by cases worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mangrove.evaluation.fdcc.keywords import Quality
from mangrove.evaluation.fdcc.measures import experience, mean_over, measured
from mangrove.evaluation.fdcc.traffic import QUEUE_BYTES, Flow, Star
from mangrove.evaluation.fdcc.trial import Span, limited_at_random, longest_silence_s
from mangrove.evaluation.fdcc.workload import Floats, Workload

SERVED = np.array([[2.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]])
BANDWIDTH = np.array([10_000.0, 4_000.0, 10_000.0, 10_000.0, 10_000.0])
MATCHING = np.array([1_000.0, 100.0, 100.0, 100.0, 100.0])
UTILITIES = (np.array([[0.5, 0.0], [0.3, 0.0]]), np.array([[0.2]]))


def two_topics() -> Workload:
    """A good and a bad one say 100 bytes to two subscribers at B0; a medium one 200 to one at B1."""
    return Workload(
        seed=1,
        matching_msg_s=MATCHING,
        bandwidth_bytes_s=BANDWIDTH,
        damage=np.ones(5),
        subscribers=np.array([2, 1]),
        size_bytes=np.array([100.0, 200.0]),
        deadline_s=np.array([1.0, 50.0]),
        topic_of=np.array([0, 0, 1]),
        quality=(Quality.GOOD, Quality.BAD, Quality.MEDIUM),
        rate_msg_s=np.array([10.0, 30.0, 20.0]),
        utilities=UTILITIES,
        taken_for=UTILITIES,
    )


def flow_of(rates: list[float], bandwidth: Floats = BANDWIDTH) -> Flow:
    return Star(two_topics(), SERVED).flow(np.array(rates), bandwidth)


def test_what_exceeds_an_edges_output_is_lost_of_all_topics_alike() -> None:
    flow = flow_of([10.0, 30.0, 20.0])
    assert flow.offered[0].tolist() == [8000.0, 8000.0, 60.0]
    assert flow.offered[1].tolist() == [4000.0, 8000.0, 40.0]
    assert flow.offered[2].tolist() == [4000.0, 4000.0, 20.0]
    assert flow.carried[1].tolist() == [4000.0, 4000.0, 40.0]
    assert flow.delivered.tolist() == [5.0, 15.0, 20.0]
    assert flow.wait_s.tolist() == [QUEUE_BYTES / 4000.0, 0.0]
    assert flow.utilisation[:3, 1].tolist() == [0.8, 1.0, 0.4]


def test_what_the_head_loses_never_reaches_the_edges() -> None:
    damaged = BANDWIDTH.copy()
    damaged[0] = 4000.0
    flow = flow_of([10.0, 30.0, 20.0], damaged)
    assert flow.carried[0].tolist() == [4000.0, 4000.0, 30.0]
    assert flow.carried[1].tolist() == [2000.0, 4000.0, 20.0], "half arrives, and just fits"
    assert flow.delivered.tolist() == [5.0, 15.0, 10.0]
    assert flow.offered[1].tolist() == [4000.0, 8000.0, 40.0], "asked for as if nothing were lost"


def test_matching_binds_too() -> None:
    flow = Star(replace(two_topics(), matching_msg_s=MATCHING / 5), SERVED).flow(
        np.array([10.0, 30.0, 20.0]), BANDWIDTH * 10
    )
    assert flow.delivered.tolist() == [5.0, 15.0, 20.0]
    assert flow.carried[1].tolist() == [2000.0, 4000.0, 20.0]


def test_experience_leaves_out_who_is_silent() -> None:
    topic_of, listeners = np.array([0, 0, 1]), np.array([2.0, 1.0])
    utility = np.array([0.4, 0.0, 0.2])
    # subscribers of the first topic have (0.4 + 0) / 2, that of the second 0.2
    assert experience(topic_of, listeners, utility, np.ones(3)) == pytest.approx((2 * 0.2 + 0.2) / 3)
    without_bad = experience(topic_of, listeners, utility, np.array([1.0, 0.0, 1.0]))
    assert without_bad == pytest.approx((2 * 0.4 + 0.2) / 3)
    first_alone = experience(topic_of, listeners, utility, np.array([1.0, 0.0, 0.0]))
    assert first_alone == pytest.approx(0.4), "who hears nobody does not count"
    assert experience(topic_of, listeners, utility, np.zeros(3)) == 0.0
    seldom = experience(topic_of, listeners, utility, np.array([1.0, 0.25, 1.0]))
    assert seldom == pytest.approx((2 * 0.4 / 1.25 + 0.2) / 3), "heard in every fourth second"


def test_measures_of_a_second() -> None:
    workload = two_topics()
    specified = np.stack((BANDWIDTH, BANDWIDTH, MATCHING), axis=1)
    stopped = np.array([False, True, False])
    flow = flow_of([10.0, 1.0, 20.0])
    found = measured(workload, flow, specified, stopped, workload.publisher_utility)
    assert found.qoe == pytest.approx((2 * 0.4 + 0.2) / 3)
    assert found.qoe_probes == pytest.approx((2 * 0.2 + 0.2) / 3), "a probe is as loud as any other"
    assert found.qoe_zero == found.qoe_probes
    assert found.utility_s == pytest.approx(10 * 2 * 0.4 + 20 * 0.2)
    assert found.deliveries_s == 42.0
    assert found.message_utility == pytest.approx(12 / 42)
    assert found.good_in_time == 1.0
    assert found.stopped == pytest.approx(1 / 3)
    assert found.unheard == 0.0
    assert found.uo == pytest.approx((0.51 + 0.55 + 0.4) / 5)
    assert found.um == pytest.approx((0.11 + 0.20) / 4)
    assert found.largest == pytest.approx(0.55)


def test_good_messages_that_wait_too_long_do_not_count() -> None:
    workload = two_topics()
    specified = np.stack((BANDWIDTH, BANDWIDTH, MATCHING), axis=1)
    nobody = np.zeros(3, dtype=np.bool_)
    found = measured(workload, flow_of([10.0, 30.0, 20.0]), specified, nobody, workload.publisher_utility)
    assert found.good_in_time == 0.0, "half arrive, after hours"
    assert found.utility_s == pytest.approx(5 * 2 * 0.4 + 20 * 0.2)


def test_means_weigh_spans_by_their_length() -> None:
    workload = two_topics()
    specified = np.stack((BANDWIDTH, BANDWIDTH, MATCHING), axis=1)
    nobody = np.zeros(3, dtype=np.bool_)
    one, two = (
        measured(workload, flow_of(rates), specified, nobody, workload.publisher_utility)
        for rates in ([10.0, 0.0, 0.0], [0.0, 0.0, 20.0])
    )
    both = mean_over([(1, one), (3, two)])
    assert both.utility_s == pytest.approx((1 * 8.0 + 3 * 4.0) / 4)
    assert both.largest == two.largest


def test_random_limiting_takes_the_same_volume_from_every_edge() -> None:
    workload = two_topics()
    withheld = [Span(301, 599, np.array([10.0, 5.0, 20.0]), np.array([False, True, False]))]
    seen = set()
    for seed in range(20):
        (span,) = limited_at_random(replace(workload, seed=seed), SERVED, withheld, 1.0)
        assert span.rates[:2].sum() == pytest.approx(15.0), "25 of 40 messages at B0"
        assert span.rates[2] == 20.0, "none at B1"
        assert (span.rates >= 1.0).all(), "a probe is left"
        assert span.stopped.tolist() == (span.rates <= 1.0).tolist()
        seen.add(tuple(np.round(span.rates, 6)))
    assert seen == {(10.0, 5.0, 20.0), (1.0, 14.0, 20.0)}


def test_the_longest_silence() -> None:
    assert longest_silence_s([(10, np.array([4.0, 1.0]))]) == pytest.approx(1.0)
    assert longest_silence_s([(10, np.array([4.0])), (5, np.array([0.0])), (5, np.array([2.0]))]) == (
        pytest.approx(5.5)
    )
    assert longest_silence_s([(1, np.array([0.25]))] * 8) == pytest.approx(4.0)
    assert longest_silence_s([(60, np.array([0.0]))]) == 60.0
