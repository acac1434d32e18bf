"""Shares of a contract's rate, by hand."""

from __future__ import annotations

import pytest

from mangrove.control.congestion.fair_level import fair_level
from mangrove.control.congestion.shares import FLOOR, Offer, contract_limits, fair_shares
from mangrove.model.congestion.rate_limit import LimitCause


@pytest.mark.parametrize(
    ("amount", "wants", "level"),
    [
        (10.0, [2.0, 8.0, 10.0], 4.0),
        (10.0, [4.0, 4.0, 4.0], 10.0 / 3.0),
        (10.0, [1.0, 2.0], 9.0),
        (10.0, [], 10.0),
        (0.0, [1.0, 0.0], 0.0),
        (-5.0, [1.0], 0.0),
        (10.0, [5.0, 5.0], 5.0),
    ],
)
def test_the_fair_level_by_hand(amount: float, wants: list[float], level: float) -> None:
    assert fair_level(amount, wants) == pytest.approx(level)


def test_one_publisher_has_it_all() -> None:
    for offered in (0.0, 10.0, 50_000.0):
        assert fair_shares(1000.0, {"a": offered}) == {"a": pytest.approx(1000.0)}


def test_two_that_want_more_have_half_each() -> None:
    assert fair_shares(1000.0, {"a": 50_000.0, "b": 700.0}) == {
        "a": pytest.approx(500.0),
        "b": pytest.approx(500.0),
    }


def test_an_idle_publisher_keeps_enough_to_be_heard() -> None:
    """The floor of two is 10 msg/s each; b leaves the other 490 of its half."""
    floor = FLOOR * 1000.0 / 2
    assert fair_shares(1000.0, {"a": 50_000.0, "b": 0.0}) == {
        "a": pytest.approx(1000.0 - floor),
        "b": pytest.approx(floor),
    }


def test_who_wants_less_than_its_share_may_say_a_little_more() -> None:
    """b said 100 and may say 105; a has the rest."""
    assert fair_shares(1000.0, {"a": 50_000.0, "b": 100.0}) == {
        "a": pytest.approx(895.0),
        "b": pytest.approx(105.0),
    }


def test_what_nobody_wants_is_there_for_all() -> None:
    """210 and 105 are wanted, 685 are left: 342.5 for each."""
    assert fair_shares(1000.0, {"a": 200.0, "b": 100.0}) == {
        "a": pytest.approx(552.5),
        "b": pytest.approx(447.5),
    }
    assert fair_shares(1000.0, {}) == {}


def test_a_contract_limits_messages_and_bytes_each_for_itself() -> None:
    offers = {"a": Offer(50_000.0, 1e6), "b": Offer(50_000.0, 0.0)}
    limits = contract_limits(1000.0, 10_000.0, offers)
    assert {name: limit.msg_s for name, limit in limits.items()} == {"a": 500.0, "b": 500.0}
    assert limits["a"].bytes_s == pytest.approx(9900.0)
    assert limits["b"].bytes_s == pytest.approx(100.0)
    assert limits["a"].cause is LimitCause.CONTRACT
    assert limits["a"].reason == "its contract, shared by 2 publishers"
    assert contract_limits(None, 10.0, {"a": Offer(1.0, 1.0)})["a"].msg_s is None
    assert contract_limits(None, None, offers) == {}
