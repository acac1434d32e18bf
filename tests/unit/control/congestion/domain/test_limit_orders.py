"""Clients are told their limits until they know them, again before they run out, and that they are free."""

from __future__ import annotations

from mangrove.control.congestion.domain.limit_orders import (
    MAX_LIMITS_A_CLIENT,
    RENEW_S,
    REPEAT_S,
    LimitOrders,
)
from mangrove.control.instructions import Instruction, TellClient
from mangrove.model.agents.usefulness import LIMITS_VALID_S, LimitsOrdered
from mangrove.model.congestion.rate_limit import LimitCause, RateLimit


def told(instructions: list[Instruction]) -> dict[str, LimitsOrdered]:
    found = {}
    for each in instructions:
        assert isinstance(each, TellClient)
        assert isinstance(each.order, LimitsOrdered)
        found[each.client] = each.order
    return found


def limit(msg_s: float) -> RateLimit:
    return RateLimit(msg_s=msg_s, cause=LimitCause.CONGESTION)


def test_only_those_who_are_limited_are_told_and_once_they_know_hardly_ever_again() -> None:
    orders = LimitOrders(term=3)
    assert orders.set({}, 0.0) == []
    assert orders.timer() == float("inf")
    first = told(orders.set({"a": {"t": limit(5.0)}}, 1.0))["a"]
    assert first.limits["t"].msg_s == 5.0
    assert orders.set({"a": {"t": limit(5.01)}}, 1.1) == [], "hardly another limit"
    assert told(orders.handle_timer(1.0 + REPEAT_S))["a"] == first
    orders.reported("a", first.epoch)
    assert orders.handle_timer(2.5 + REPEAT_S) == []
    again = told(orders.handle_timer(2.0 + RENEW_S + 0.1))
    assert again["a"] == first, "limits would run out"


def test_epochs_grow_over_changes_and_terms() -> None:
    orders = LimitOrders(term=3)
    first = told(orders.set({"a": {"t": limit(5.0)}}, 0.0))["a"].epoch
    second = told(orders.set({"a": {"t": limit(9.0)}}, 1.0))["a"].epoch
    later = told(LimitOrders(term=4).set({"a": {"t": limit(5.0)}}, 2.0))["a"].epoch
    assert first < second < later


def test_who_is_free_is_told_so_until_it_knows_or_its_limits_have_run_out() -> None:
    orders = LimitOrders(term=1)
    orders.set({"a": {"t": limit(5.0)}, "b": {"t": limit(5.0)}}, 0.0)
    free = told(orders.set({}, 1.0))
    assert free["a"].limits == free["b"].limits == {}
    orders.reported("a", free["a"].epoch)
    assert set(told(orders.handle_timer(1.0 + REPEAT_S))) == {"b"}
    now = 1.0
    while now < 1.0 + LIMITS_VALID_S + 2 * REPEAT_S:
        now += REPEAT_S
        orders.handle_timer(now)
    assert orders.timer() == float("inf"), "its limits are in force no more"


def test_a_client_that_has_left_or_begun_anew() -> None:
    orders = LimitOrders(term=1)
    orders.set({"a": {"t": limit(5.0)}}, 0.0)
    assert set(told(orders.registered("a", 5.0))) == {"a"}
    orders.left("a")
    assert orders.registered("a", 9.0) == []
    assert orders.handle_timer(99.0) == []


def test_of_too_many_limits_the_strictest_are_told_and_the_others_counted() -> None:
    orders = LimitOrders(term=1)
    limits = {f"t{number}": limit(float(number)) for number in range(MAX_LIMITS_A_CLIENT + 3)}
    order = told(orders.set({"a": limits}, 0.0))["a"]
    assert len(order.limits) == MAX_LIMITS_A_CLIENT
    assert "t0" in order.limits
    assert orders.refused.total() == 3
