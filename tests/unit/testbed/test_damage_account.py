"""What is counted of damage: offered, withheld, in time, lost and useful, by class and stretch of time."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mangrove.model.congestion.parameters import Mode
from mangrove.testbed.damage.account import ClassAccount, Heard, Spoken, account_of, ratio
from mangrove.testbed.damage.workload import (
    DamagePlan,
    Quality,
    Speaker,
    Topic,
    draw_plan,
    federation_of,
)

SECOND = 1_000_000_000
PLAN = DamagePlan(
    topics=(
        Topic(name="report.0", deadline_s=2.0, subscribers=2, interests=frozenset({"a", "b"})),
        Topic(name="alert.0", deadline_s=1.0, subscribers=1),
    ),
    speakers=(
        Speaker(0, 0, Quality.GOOD, 1.0, (("a", "b"),)),
        Speaker(1, 0, Quality.USELESS, 1.0, (("c",),)),
        Speaker(2, 1, Quality.ALERT, 1.0),
    ),
    edges=1,
    bandwidth_mbps=1.0,
    payload_bytes=100,
    seed=1,
)


def test_an_account_by_hand() -> None:
    spoken = Spoken(
        at_ns={
            (0, 1): 5 * SECOND,  # before
            (0, 2): 11 * SECOND,
            (0, 3): 12 * SECOND,  # never arrives at the second subscriber
            (1, 1): 11 * SECOND,  # withheld
            (1, 2): 12 * SECOND,
            (2, 1): 13 * SECOND,
        },
        withheld={(1, 1)},
    )
    first = Heard([(0, 1, 10 * SECOND), (0, 2, 12 * SECOND), (0, 3, 15 * SECOND), (0, 3, 16 * SECOND)])
    second = Heard([(0, 2, 11 * SECOND), (1, 2, 21 * SECOND)])
    siren = Heard([(2, 1, 13 * SECOND + SECOND // 2)])
    account = account_of(PLAN, spoken, [first, second, siren], 10 * SECOND, 20 * SECOND)
    assert account.seconds == 10.0
    assert account.classes == {
        "good": ClassAccount(
            offered=4,
            delivered=4,
            in_time=2,
            lost=1,
            duplicated=1,
            useful=4,
            useful_in_time=2,
            utility=4.0,
            worst_ms=5000.0,
        ),
        # One copy came after the end, which is too late to be counted as delivered meanwhile, but not lost.
        "useless": ClassAccount(offered=4, withheld=2, lost=1),
        "alert": ClassAccount(
            offered=1, delivered=1, in_time=1, useful=1, useful_in_time=1, utility=1.0, worst_ms=500.0
        ),
    }
    assert account.useful_s == pytest.approx(0.5)
    assert account.useful_in_time_s == pytest.approx(0.3)
    assert account.utility_s == pytest.approx(0.5)
    assert account.classes["good"].in_time_share == 0.5


@settings(max_examples=50)
@given(st.data())
def test_every_message_is_accounted_for(data: st.DataObject) -> None:
    """What was offered is withheld, lost, or arrived: nothing else, nothing twice."""
    keys = [(publisher, sequence) for publisher in range(3) for sequence in range(1, 5)]
    spoken = Spoken(at_ns={key: data.draw(st.integers(0, 30)) * SECOND for key in keys})
    spoken.withheld.update(data.draw(st.sets(st.sampled_from(keys))))
    heard = []
    arrived = 0
    for topic, about in enumerate(PLAN.topics):
        mine = [key for key in keys if PLAN.speakers[key[0]].topic == topic and key not in spoken.withheld]
        for _ in range(about.subscribers):
            got = data.draw(st.lists(st.sampled_from(mine), max_size=6)) if mine else []
            heard.append(Heard([(*key, spoken.at_ns[key] + SECOND) for key in got]))
            arrived += len(set(got))
    whole = account_of(PLAN, spoken, heard, 0, 100 * SECOND)
    counted = whole.classes.values()
    assert sum(each.offered for each in counted) == sum(
        each.withheld + each.lost + each.delivered for each in counted
    )
    assert sum(each.delivered for each in counted) == arrived
    halves = [
        account_of(PLAN, spoken, heard, 0, 15 * SECOND),
        account_of(PLAN, spoken, heard, 15 * SECOND, 100 * SECOND),
    ]
    for name, total in whole.classes.items():
        for what in ("offered", "withheld", "delivered", "in_time", "lost", "useful"):
            parts = sum(getattr(half.classes[name], what) for half in halves)
            assert parts == getattr(total, what), f"{what} of {name}"


def test_ratios_with_nothing_are_none() -> None:
    assert ratio(2.0, 1.0) == 2.0
    assert ratio(2.0, 0.0) is None


def test_a_plan_uses_what_it_says_and_is_the_same_for_a_seed() -> None:
    plan = draw_plan(seed=7)
    assert plan == draw_plan(seed=7) != draw_plan(seed=8)
    qualities = [speaker.quality for speaker in plan.speakers]
    reports = len(plan.speakers) - qualities.count(Quality.ALERT)
    assert qualities.count(Quality.GOOD) == reports // 2
    assert qualities.count(Quality.USELESS) == reports // 4
    assert min(speaker.rate_msg_s for speaker in plan.speakers) > 0
    for speaker in plan.speakers:
        utilities = {plan.utility(speaker.number, sequence) for sequence in range(1, 21)}
        match speaker.quality:
            case Quality.ALERT:
                assert utilities == {1.0}
            case Quality.GOOD:
                assert min(utilities) >= 0.5
            case Quality.MEDIUM:
                assert utilities == {4 / 9}
            case Quality.USELESS:
                assert utilities == {0.0}


def test_alerts_are_protected_and_the_mode_is_as_asked() -> None:
    federation = federation_of(draw_plan(seed=1), Mode.OFF)
    assert federation.congestion.mode is Mode.OFF
    assert federation.topics.contract_of("alert.0").protected
    assert not federation.topics.contract_of("report.00").protected
